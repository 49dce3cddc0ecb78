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
	number int
	plan   *plan.Job
	see    func(partition int, value []byte) error
	ended  chan error // of one element
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

// taskCPUs is the size of a task, and that of an executor.
var taskCPUs = api.Scalars(1, 0)

// runJob computes all partitions of a dataset, and waits until they have been seen, one at a time.
func (c *Context) runJob(ctx context.Context, id plan.NodeID, see func(partition int, value []byte) error) error {
	c.mu.Lock()
	if c.failure != nil {
		c.mu.Unlock()
		return c.failure
	}
	c.numbers++
	j := &job{
		name: fmt.Sprint("job-", c.numbers), number: c.numbers, see: see, ended: make(chan error, 1),
		plan: plan.NewJob(c.graph, c.books, id),
	}
	c.jobs[j.number] = j
	c.advanceJobs()
	c.mu.Unlock()
	select {
	case err := <-j.ended:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endJob(j, ctx.Err())
		return <-j.ended
	}
}

// endJob takes a job out; a second end changes nothing. What of it still runs goes on to its end, on a cpu that its
// executor has in any case, and its report changes nothing.
func (c *Context) endJob(j *job, err error) {
	if c.jobs[j.number] != j {
		return
	}
	delete(c.jobs, j.number)
	j.ended <- err
	maps.DeleteFunc(c.tasks, func(_ string, t *task) bool { return t.job == j })
	c.placed = c.placed.Plus(c.delay.Numbers(j.name))
	c.delay.Forget(j.name)
}

// advanceJobs queues what can run and hands out what has room. It is called whenever something has changed.
func (c *Context) advanceJobs() {
	for _, number := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[number]
		if j.plan.Done() {
			c.endJob(j, nil)
			continue
		}
		for _, t := range j.plan.Ready() {
			c.queueTask(j, t)
		}
	}
	c.handOutTasks()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if wait := c.delay.NextChange(); wait > 0 && c.failure == nil {
		c.timer = time.AfterFunc(wait, func() { // the wait for a place has ended
			c.mu.Lock()
			defer c.mu.Unlock()
			c.advanceJobs()
		})
	}
}

// queueTask begins an attempt of a task.
func (c *Context) queueTask(j *job, t plan.Task) {
	number := j.plan.Queue(t)
	id := fmt.Sprintf("%s.%d", j.name, number)
	c.tasks[id] = &task{id: id, job: j, plan: t, number: number}
	var prefer locality.Prefer
	for _, name := range j.plan.Prefers(t) {
		prefer.Agents = append(prefer.Agents, api.AgentID(name))
	}
	c.delay.Add(j.name, api.Task{ID: api.TaskID(id), Resources: taskCPUs}, prefer)
}

// makeOrder describes a task that starts, with all that it may have to read.
func (c *Context) makeOrder(t *task) *order {
	in := t.job.plan.Inputs(t.plan)
	o := &order{ID: t.id, Shuffles: map[plan.ShuffleID]shuffle{}, Outputs: map[plan.ShuffleID][]string{}}
	if t.plan.Shuffle != 0 {
		s := c.shuffles[t.plan.Shuffle]
		o.Shuffle = &s
	}
	for _, block := range in.Chain {
		next := link{Block: block, Node: c.nodes[block.Node]}
		if len(next.Node.Each) > 0 {
			next.Node.Each = next.Node.Each[block.Partition : block.Partition+1]
		}
		if name := in.Kept[block]; name != "" {
			next.Kept = c.places[name].address
		}
		o.Chain = append(o.Chain, next)
	}
	for id, places := range in.Outputs {
		o.Shuffles[id] = c.shuffles[id]
		for _, name := range places {
			o.Outputs[id] = append(o.Outputs[id], c.places[name].address)
		}
	}
	return o
}

// takeReport takes in how a task has ended.
func (c *Context) takeReport(r report) {
	t := c.tasks[r.ID]
	if t == nil || t.place == nil {
		return // it was given up
	}
	delete(c.tasks, r.ID)
	c.delay.Ended(api.TaskID(r.ID))
	for _, block := range r.Kept {
		if c.nodes[block.Node].Kept {
			c.books.Keep(block, t.place.name)
		}
	}
	switch {
	case r.Missing != "":
		t.job.plan.Abandon(t.plan, t.number)
		c.countUnreadable(t.job, r)
	case r.Error != "":
		c.countFailure(t, fmt.Sprintf("on %s: %s", t.place.name, r.Error))
	case t.job.plan.Finish(t.plan, t.number) && t.plan.Shuffle == 0:
		if err := t.job.see(t.plan.Partition, r.Value); err != nil {
			c.endJob(t.job, err)
		}
	}
}

// countFailure counts a failure of a task by its own fault. It may be tried again, but not for ever.
func (c *Context) countFailure(t *task, how string) {
	if !t.job.plan.Fail(t.plan, t.number) {
		c.endJob(t.job, fmt.Errorf("rdd: %v has failed %d times, at last %s", t.plan, plan.FailuresMax, how))
	}
}

// unreadableMost is how often something may not be readable before a job gives up.
const unreadableMost = 20

// countUnreadable: what the executor at an address held counts as lost, and is computed again.
func (c *Context) countUnreadable(j *job, r report) {
	if j.unreadable++; j.unreadable > unreadableMost {
		c.endJob(j, fmt.Errorf("rdd: executors can't read from each other: %s", r.Error))
		return
	}
	for name, p := range c.places {
		if p.address == r.Missing {
			c.forgetPlace(name)
		}
	}
}

// forgetPlace drops what a place held. Queued tasks were queued because of what was there, so they are looked at again.
func (c *Context) forgetPlace(name plan.Place) {
	c.books.Forget(name)
	for id, t := range c.tasks {
		if t.place == nil {
			c.delay.Remove(api.TaskID(id))
			t.job.plan.Abandon(t.plan, t.number)
			delete(c.tasks, id)
		}
	}
}
