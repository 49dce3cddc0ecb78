package rdd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework/locality"
)

// job is an action that runs.
type job struct {
	name   string
	plan   *plan.Job
	node   plan.NodeID
	action action
	see    func(partition int, value []byte) error
	ended  chan error // of one element
	bars   *bars
	began  time.Duration
	// unreadable counts tasks that could not read from another executor.
	unreadable int
}

// task is an attempt on its way.
type task struct {
	id     string
	job    *job
	plan   plan.Task
	number int
	place  *place // nil: queued
	order  *order // in mode fine, from its start on: what it is to do
}

// place is an executor that lives.
type place struct {
	name    plan.Place
	agent   api.AgentID   // in whose offers there is room for its tasks; in mode coarse it offers that itself
	address string        // "": it has not asked for a task yet
	slots   map[int]*slot // in mode coarse
	drops   []plan.NodeID // datasets that it need not cache any more, to be told with the next order
	cached  map[plan.NodeID]held
}

// runJob waits until all partitions have been seen.
func (c *Context) runJob(ctx context.Context, id plan.NodeID, a action, partitions []int,
	see func(int, []byte) error) error {
	c.mu.Lock()
	if c.failure != nil {
		c.mu.Unlock()
		return c.failure
	}
	c.numbers++
	j := &job{
		name: fmt.Sprint("job-", c.numbers), node: id, action: a, see: see, ended: make(chan error, 1),
		plan: plan.NewJob(c.graph, c.books, id, partitions), bars: newBars(c.config.Progress), began: time.Since(c.began),
	}
	c.jobs[c.numbers] = j
	c.advance()
	c.mu.Unlock()
	select {
	case err := <-j.ended:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(j, ctx.Err())
		return <-j.ended
	}
}

// end takes a job out. A second end changes nothing.
func (c *Context) end(j *job, err error) {
	for number, open := range c.jobs {
		if open == j {
			delete(c.jobs, number)
			j.bars.end()
			c.showStages(j)
			j.ended <- err
		}
	}
	for id, t := range c.tasks {
		if t.job != j {
			continue
		}
		c.delay.Remove(api.TaskID(id))
		if t.place == nil {
			delete(c.tasks, id)
		} else {
			c.launcher.giveUp(t)
		}
	}
	c.placed = c.placed.Plus(c.delay.Numbers(j.name))
	c.delay.Forget(j.name)
}

// advance queues what can run and hands out what has room. It is called whenever something has changed.
func (c *Context) advance() {
	for _, number := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[number]
		if j == nil {
			continue // it has just failed
		}
		if j.plan.Done() {
			c.end(j, nil)
			continue
		}
		for _, t := range j.plan.Ready() {
			c.queue(j, t, j.plan.Prefers(t))
		}
		if c.config.Speculate > 0 {
			for _, t := range j.plan.Stragglers(time.Since(c.began), c.config.Speculate) {
				c.queue(j, t, nil)
			}
		}
		j.bars.show(j.plan.Stages())
	}
	wait := c.launcher.handOut()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if wait = sooner(wait, c.nextLook()); wait > 0 && c.failure == nil {
		c.timer = time.AfterFunc(wait, c.look)
	}
}

// sooner is the shorter one of two waits; one of 0 has no end.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// queue begins an attempt of a task.
func (c *Context) queue(j *job, t plan.Task, places []plan.Place) {
	number := j.plan.Queue(t)
	id := fmt.Sprintf("%s.%d", j.name, number)
	c.tasks[id] = &task{id: id, job: j, plan: t, number: number}
	var prefer locality.Prefer
	for _, place := range places {
		prefer.Agents = append(prefer.Agents, c.places[place].agent)
	}
	c.delay.Add(j.name, api.Task{ID: api.TaskID(id), Resources: taskCPUs}, prefer)
}

// nextLook is when time alone may change something: a wait for a place ends, or a task becomes a straggler.
func (c *Context) nextLook() time.Duration {
	wait := c.delay.NextChange()
	if c.config.Speculate > 0 && len(c.jobs) > 0 {
		return sooner(wait, time.Second)
	}
	return wait
}

func (c *Context) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
}

// start says that the attempt of that name runs at a place from now on.
func (c *Context) start(id string, p *place) *task {
	t := c.tasks[id]
	t.place = p
	t.job.plan.Start(t.plan, t.number, p.name, time.Since(c.began))
	return t
}

// abandon ends an attempt by nobody's fault: its task is to be queued again.
func (c *Context) abandon(t *task) {
	delete(c.tasks, t.id)
	c.delay.Ended(api.TaskID(t.id))
	t.job.plan.Abandon(t.plan, t.number)
}

// order describes a task that starts, with all that it may have to read.
func (c *Context) order(t *task) *order {
	in := t.job.plan.Inputs(t.plan)
	o := &order{
		ID: t.id, Block: t.job.plan.Block(t.plan), Action: t.job.action,
		Nodes: map[plan.NodeID]node{}, Each: map[plan.Block][]byte{},
		Shuffles: map[plan.ShuffleID]shuffle{}, Outputs: map[plan.ShuffleID][]string{}, Kept: map[plan.Block][]string{},
		Drops: t.place.drops,
	}
	t.place.drops = nil
	if t.plan.Shuffle != 0 {
		s := c.shuffles[t.plan.Shuffle]
		o.Shuffle = &s
	}
	for _, block := range in.Chain {
		n := c.nodes[block.Node]
		if len(n.Each) > 0 {
			o.Each[block] = n.Each[block.Partition]
		}
		n.Each = nil
		o.Nodes[n.ID] = n
	}
	for block, places := range in.Kept {
		for _, place := range places {
			o.Kept[block] = append(o.Kept[block], c.places[place].address)
		}
	}
	for id, places := range in.Outputs {
		o.Shuffles[id] = c.shuffles[id]
		for _, place := range places {
			o.Outputs[id] = append(o.Outputs[id], c.places[place].address)
		}
	}
	return o
}

// told takes in how a task has ended.
func (c *Context) told(r report) {
	t, open := c.tasks[r.ID]
	if !open || t.place == nil {
		return // it was given up
	}
	delete(c.tasks, r.ID)
	c.delay.Ended(api.TaskID(r.ID))
	t.place.cached = r.Cached
	for _, block := range r.Kept { // before the job may end, and shows what is cached
		if c.places[t.place.name] != nil && c.nodes[block.Node].Kept {
			c.books.Keep(block, t.place.name)
		}
	}
	place, running := t.place.name, c.running(t.job)
	switch {
	case !running:
	case r.Missing != "":
		t.job.plan.Abandon(t.plan, t.number)
		c.unreadable(t, r)
	case r.Error != "":
		if !t.job.plan.Fail(t.plan, t.number) {
			c.end(t.job, fmt.Errorf("rdd: %v has failed too often, at last on %s: %s", t.plan, place, r.Error))
		}
	default:
		c.finished(t, r)
	}
}

func (c *Context) running(j *job) bool {
	for _, open := range c.jobs {
		if open == j {
			return true
		}
	}
	return false
}

// finished takes in a result.
func (c *Context) finished(t *task, r report) {
	if !t.job.plan.Finish(t.plan, t.number, time.Since(c.began)) {
		return
	}
	c.endCopies(t)
	c.tally.add(t.plan, r.Counts)
	if t.plan.Shuffle != 0 {
		return
	}
	if err := t.job.see(t.plan.Partition, r.Value); err != nil {
		c.end(t.job, err)
	}
}

// endCopies ends what else was to do what a task has just done: the straggler of a copy, or the copy.
func (c *Context) endCopies(done *task) {
	for id, t := range c.tasks { // order: irrelevant because each is ended by itself
		switch {
		case t.job != done.job || t.plan != done.plan:
		case t.place != nil:
			c.launcher.giveUp(t)
		default:
			c.delay.Remove(api.TaskID(id))
			c.abandon(t)
		}
	}
}

// unreadableMost is how often something may not be readable before a job gives up.
const unreadableMost = 20

// unreadable: what the executor at an address held counts as lost, and is computed again.
func (c *Context) unreadable(t *task, r report) {
	if t.job.unreadable++; t.job.unreadable > unreadableMost {
		c.end(t.job, fmt.Errorf("rdd: executors can't read from each other: %s", r.Error))
		return
	}
	for name, p := range c.places {
		if p.address == r.Missing {
			c.forget(name)
		}
	}
}

// forget drops what a place held. Queued tasks were queued because of what was there, so they are looked at again.
func (c *Context) forget(name plan.Place) {
	c.books.Forget(name)
	for id, t := range c.tasks {
		if t.place == nil {
			c.delay.Remove(api.TaskID(id))
			t.job.plan.Abandon(t.plan, t.number)
			delete(c.tasks, id)
		}
	}
}

// lose takes an executor out that has died, or may have.
func (c *Context) lose(name plan.Place) {
	c.gone[name] = true
	p := c.places[name]
	if p == nil {
		return
	}
	delete(c.places, name)
	for _, s := range p.slots {
		if s.asked != nil {
			close(s.asked)
		}
	}
	for id, t := range c.tasks {
		if t.place == p {
			delete(c.tasks, id)
			c.delay.Ended(api.TaskID(id))
		}
	}
	for _, j := range c.jobs {
		j.plan.Lose(name)
	}
	c.forget(name)
	c.advance()
}
