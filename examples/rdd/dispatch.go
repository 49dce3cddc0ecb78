package rdd

import (
	"context"
	"errors"
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
}

// place is an executor that lives.
type place struct {
	name    plan.Place
	address string
	slots   map[int]*slot
	drops   []plan.NodeID // datasets that it need not cache any more, to be told with the next order
	cached  map[plan.NodeID]held
}

// slot runs one task at a time. It asks for the next one, and is answered when there is one.
type slot struct {
	asked chan *order // nil: it runs a task
	task  *task
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
			delete(c.tasks, id) // those that run go on, and their reports change nothing
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
	c.handOut()
}

// queue begins an attempt of a task.
func (c *Context) queue(j *job, t plan.Task, places []plan.Place) {
	number := j.plan.Queue(t)
	id := fmt.Sprintf("%s.%d", j.name, number)
	c.tasks[id] = &task{id: id, job: j, plan: t, number: number}
	var prefer locality.Prefer
	for _, place := range places {
		prefer.Agents = append(prefer.Agents, api.AgentID(place))
	}
	c.delay.Add(j.name, api.Task{ID: api.TaskID(id), Resources: taskCPUs}, prefer)
}

// handOut gives queued tasks to slots. A free executor is to its tasks what an agent's offer is to a framework, so delay
// scheduling is that of package locality, as it is: each task goes where its block is, or waits a little for it.
func (c *Context) handOut() {
	for _, name := range slices.Sorted(maps.Keys(c.places)) {
		p := c.places[name]
		free := p.free()
		if len(free) == 0 {
			continue
		}
		offer := api.Offer{
			ID: api.OfferID(name), Agent: api.AgentID(name), Hostname: string(name),
			Resources: api.Scalars(float64(len(free)), 0),
		}
		for _, answer := range c.delay.Offers([]api.Offer{offer}) {
			for _, operation := range answer.Operations {
				for i, t := range operation.Tasks {
					c.give(p, free[i], c.tasks[string(t.ID)])
				}
			}
		}
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if wait := c.nextLook(); wait > 0 && c.failure == nil {
		c.timer = time.AfterFunc(wait, c.look)
	}
}

// nextLook is when time alone may change something: a wait for a place ends, or a task becomes a straggler.
func (c *Context) nextLook() time.Duration {
	wait := c.delay.NextChange()
	if c.config.Speculate > 0 && len(c.jobs) > 0 && (wait == 0 || wait > time.Second) {
		wait = time.Second
	}
	return wait
}

func (c *Context) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
}

// free are the numbers of slots that wait, in order.
func (p *place) free() []int {
	var free []int
	for _, number := range slices.Sorted(maps.Keys(p.slots)) {
		if p.slots[number].asked != nil {
			free = append(free, number)
		}
	}
	return free
}

// give hands a task to a slot.
func (c *Context) give(p *place, number int, t *task) {
	s := p.slots[number]
	t.place, s.task = p, t
	t.job.plan.Start(t.plan, t.number, p.name, time.Since(c.began))
	o := c.order(t)
	o.Drops, p.drops = p.drops, nil
	s.asked <- o // of one element, and empty
	s.asked = nil
}

// order describes a task with all that it may have to read.
func (c *Context) order(t *task) *order {
	in := t.job.plan.Inputs(t.plan)
	o := &order{
		ID: t.id, Block: t.job.plan.Block(t.plan), Action: t.job.action,
		Nodes: map[plan.NodeID]node{}, Each: map[plan.Block][]byte{},
		Shuffles: map[plan.ShuffleID]shuffle{}, Outputs: map[plan.ShuffleID][]string{}, Kept: map[plan.Block][]string{},
	}
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
	c.tally.add(t.plan, r.Counts)
	if t.plan.Shuffle != 0 {
		return
	}
	if err := t.job.see(t.plan.Partition, r.Value); err != nil {
		c.end(t.job, err)
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

var errGone = errors.New("this executor is taken for dead")

// ask is a slot's question for a task, with the report of its last one. The channel brings the order; it is closed when
// there will be none.
func (c *Context) ask(q question) (<-chan *order, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[q.Place] {
		return nil, errGone
	}
	p := c.places[q.Place]
	if p == nil {
		p = &place{name: q.Place, address: q.Address, slots: map[int]*slot{}}
		c.places[q.Place], c.stillborn = p, 0
	}
	s := p.slots[q.Slot]
	if s == nil {
		s = &slot{}
		p.slots[q.Slot] = s
	}
	if s.asked != nil {
		close(s.asked) // it asks anew: its connection broke
	}
	if q.Report != nil {
		c.told(*q.Report)
	}
	if t := s.task; t != nil && c.tasks[t.id] == t { // the order got lost on its way
		delete(c.tasks, t.id)
		c.delay.Ended(api.TaskID(t.id))
		t.job.plan.Abandon(t.plan, t.number)
	}
	s.asked, s.task = make(chan *order, 1), nil
	asked := s.asked
	c.advance()
	return asked, nil
}

// silence takes back a question whose asker has gone.
func (c *Context) silence(q question, asked <-chan *order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.places[q.Place]; p != nil && p.slots[q.Slot].asked == asked {
		p.slots[q.Slot].asked = nil
	}
}

// await waits for an order.
func (c *Context) await(ctx context.Context, q question) (*order, error) {
	asked, err := c.ask(q)
	if err != nil {
		return nil, err
	}
	select {
	case o, more := <-asked:
		if !more {
			return nil, errGone
		}
		return o, nil
	case <-ctx.Done():
		c.silence(q, asked)
		return nil, ctx.Err()
	}
}
