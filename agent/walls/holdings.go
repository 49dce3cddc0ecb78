package walls

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
)

// Holding is an executor with the tasks that it was handed and that have not ended.
type Holding struct {
	Executor  api.ExecutorRef
	Builtin   bool          // each of its tasks has a cell of its own
	Resources api.Resources // its own
	Tasks     []api.Task
	GPUs      map[api.TaskID][]uint32 // of its tasks, by index
}

// ownMemory is for an executor that asks for no memory itself: its program needs some beside what its tasks ask for.
const ownMemory = 64 << 20

// holdings are what executors hold with their tasks. Their cells have as large a share of the machine as all of it
// together; that of an executor that runs its tasks itself has their limits together.
type holdings struct {
	mutex     sync.Mutex
	executors map[api.ExecutorRef]*holding
	tasks     map[api.TaskRef]api.ExecutorRef
	late      map[api.ExecutorRef]bool // their tasks have ended, and their cells have not shrunk yet
	wake      chan struct{}            // something is late
}

type holding struct {
	builtin bool
	own     cell.Limits
	sum     cell.Limits // of its tasks
	tasks   map[api.TaskID]cell.Limits
	gpus    map[api.TaskID][]uint32
	memory  int64       // its limit: it never shrinks, as what the executor has kept can't be taken from it
	applied cell.Limits // what its cells are set to; zero: nothing yet
}

func newHoldings() holdings {
	return holdings{
		executors: map[api.ExecutorRef]*holding{}, tasks: map[api.TaskRef]api.ExecutorRef{}, late: map[api.ExecutorRef]bool{},
		wake: make(chan struct{}, 1),
	}
}

// begin notes a new executor.
func (h *holdings) begin(held Holding, rules cell.Rules) *holding {
	own := rules.Limits(&api.Task{Resources: held.Resources})
	own.CPUs = max(own.CPUs, 1000) // it has to answer in time, whatever it has asked for
	if own.Memory == 0 {
		own.Memory = ownMemory
	}
	h.drop(held.Executor)
	fresh := &holding{builtin: held.Builtin, own: own, tasks: map[api.TaskID]cell.Limits{}, gpus: map[api.TaskID][]uint32{}}
	h.executors[held.Executor] = fresh
	return fresh
}

// drop forgets an executor with its tasks.
func (h *holdings) drop(ref api.ExecutorRef) {
	if old := h.executors[ref]; old != nil {
		for task := range old.tasks { // order: irrelevant because each is deleted
			delete(h.tasks, api.TaskRef{Framework: ref.Framework, Task: task})
		}
		delete(h.executors, ref)
	}
}

// forget is drop for an executor that has come to its end.
func (h *holdings) forget(ref api.ExecutorRef) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.drop(ref)
}

// take adds a task, once.
func (h *holdings) take(ref api.ExecutorRef, task *api.Task, gpus []uint32, rules cell.Rules) *holding {
	its := h.executors[ref]
	if its == nil {
		return nil
	}
	if _, known := its.tasks[task.ID]; !known {
		limits := rules.Limits(task)
		its.tasks[task.ID] = limits
		if len(gpus) > 0 {
			its.gpus[task.ID] = gpus
		}
		its.sum = plus(its.sum, limits, +1)
		h.tasks[api.TaskRef{Framework: ref.Framework, Task: task.ID}] = ref
	}
	return its
}

// release takes a task off, and tells whether it had GPUs; nil when nobody holds it.
func (h *holdings) release(task api.TaskRef) (ref api.ExecutorRef, its *holding, gpus bool) {
	ref, known := h.tasks[task]
	if !known {
		return ref, nil, false
	}
	delete(h.tasks, task)
	its = h.executors[ref]
	its.sum = plus(its.sum, its.tasks[task.Task], -1)
	gpus = len(its.gpus[task.Task]) > 0
	delete(its.tasks, task.Task)
	delete(its.gpus, task.Task)
	return ref, its, gpus
}

func plus(a, b cell.Limits, sign int64) cell.Limits {
	return cell.Limits{
		CPUs: a.CPUs + sign*b.CPUs, Quota: a.Quota + sign*b.Quota, Memory: a.Memory + sign*b.Memory, Pids: a.Pids + sign*b.Pids,
	}
}

// apply sets the cells of an executor to what it holds. What they have beyond that stays until they shrink: where small
// tasks come and go by the thousand, hardly any of them has something written.
func (i *holding) apply(around cell.Cell, rules cell.Rules, shrinks bool) error {
	all := plus(i.own, i.sum, +1)
	i.memory = max(i.memory, all.Memory)
	all.Memory = i.memory
	if rules.PidsMax == 0 {
		all.Pids = 0
	}
	if !rules.HardQuota { // what one task may have is nothing that could be held for it alone
		all.Quota = 0
	}
	if i.builtin { // each of its tasks has limits of its own
		all = cell.Limits{CPUs: all.CPUs}
	}
	if !shrinks {
		all = grown(i.applied, all)
	}
	return i.set(all, around)
}

// grown is the larger of what a cell has and what is wanted. A weight that is right to an eighth stays: it says only how
// what there is not enough of is shared.
func grown(has, wanted cell.Limits) cell.Limits {
	if wanted.CPUs <= has.CPUs+has.CPUs/8 {
		wanted.CPUs = has.CPUs
	}
	wanted.Quota, wanted.Pids = max(has.Quota, wanted.Quota), max(has.Pids, wanted.Pids)
	return wanted
}

// set writes what the cells do not have yet. After a failure nobody knows what they have: all is written next time.
func (i *holding) set(limits cell.Limits, around cell.Cell) error {
	has := i.applied
	if limits == has {
		return nil
	}
	i.applied = cell.Limits{}
	if err := i.write(has, limits, around); err != nil {
		return err
	}
	i.applied = limits
	return nil
}

// write changes what differs; from nothing, that is all.
func (i *holding) write(has, limits cell.Limits, around cell.Cell) error {
	err := around.Change(cell.Limits{CPUs: has.CPUs}, cell.Limits{CPUs: limits.CPUs})
	if i.builtin {
		return err
	}
	return errors.Join(err, around.Child(cell.Own).Change(has, limits))
}

// Remember notes what executors hold that have outlived the agent before this one.
func (c *Cells) Remember(all []Holding) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	var failures []error
	for _, held := range all {
		its := c.holds.begin(held, c.rules)
		for i := range held.Tasks {
			c.holds.take(held.Executor, &held.Tasks[i], held.GPUs[held.Tasks[i].ID], c.rules)
		}
		if around := c.of(held.Executor); around.Exists() {
			failures = append(failures, its.apply(around, c.rules, true))
		}
	}
	return errors.Join(failures...)
}

// Hold makes room for a task with these GPUs before its executor is handed it.
func (c *Cells) Hold(executor api.ExecutorRef, task *api.Task, gpus []uint32) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	its := c.holds.take(executor, task, gpus, c.rules)
	if its == nil {
		return nil
	}
	return errors.Join(c.settle(its, executor, false), c.giveGPUs(its, executor, gpus))
}

// giveGPUs lets an executor that runs its tasks itself use the GPUs of one.
func (c *Cells) giveGPUs(its *holding, executor api.ExecutorRef, gpus []uint32) error {
	if its.builtin || len(gpus) == 0 {
		return nil
	}
	around, devices := c.of(executor), c.config.GPUs.Own(gpus)
	return errors.Join(around.Allow(devices), around.Child(cell.Own).Allow(devices))
}

// takeGPUs leaves an executor the GPUs of the tasks that it still has. What it has open of the others it keeps.
func (c *Cells) takeGPUs(its *holding, executor api.ExecutorRef) error {
	var left []uint32
	for _, gpus := range its.gpus { // order: irrelevant because it is a set
		left = append(left, gpus...)
	}
	return c.of(executor).Deny(c.config.GPUs.Others(left))
}

// Release takes back what a task has held that has ended: its GPUs at once. Its executor's cell shrinks by and by.
func (c *Cells) Release(task api.TaskRef) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	executor, its, gpus := c.holds.release(task)
	if its == nil {
		return nil
	}
	c.holds.late[executor] = true
	select {
	case c.holds.wake <- struct{}{}:
	default: // it is known already
	}
	if gpus && !its.builtin {
		return c.takeGPUs(its, executor)
	}
	return nil
}

// shrinkAfter is how long a cell stays as wide as the tasks needed that have ended: the next ones may need as much.
const shrinkAfter = time.Second

// ShrinkByAndBy keeps the cells of executors from staying wider than what these hold, until the context ends. failed takes
// what went wrong.
func (c *Cells) ShrinkByAndBy(ctx context.Context, failed func(error)) {
	if c == nil {
		return
	}
	for {
		select {
		case <-c.holds.wake:
		case <-ctx.Done():
			return
		}
		if !pause.For(ctx, shrinkAfter) {
			return // the agent after this one sets them anew
		}
		if err := c.Shrink(); err != nil {
			failed(err)
		}
	}
}

// Shrink sets the cells of executors whose tasks have ended to what they hold now.
func (c *Cells) Shrink() error {
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	var failures []error
	for executor := range c.holds.late { // order: irrelevant because each has cells of its own
		if its := c.holds.executors[executor]; its != nil {
			failures = append(failures, c.settle(its, executor, true))
		}
	}
	clear(c.holds.late)
	return errors.Join(failures...)
}

// settle applies what an executor holds, unless its cell has gone or was never there.
func (c *Cells) settle(its *holding, executor api.ExecutorRef, shrinks bool) error {
	around := c.of(executor)
	if err := its.apply(around, c.rules, shrinks); err != nil && around.Exists() {
		return err
	}
	return nil
}
