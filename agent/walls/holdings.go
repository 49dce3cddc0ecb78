package walls

import (
	"errors"
	"sync"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// Holding is an executor with the tasks that it was handed and that have not ended.
type Holding struct {
	Executor  api.ExecutorRef
	Builtin   bool          // each of its tasks has a cell of its own
	Resources api.Resources // its own
	Tasks     []api.Task
}

// ownMemory is for an executor that asks for no memory itself: its program needs some beside what its tasks ask for.
const ownMemory = 64 << 20

// holdings are what executors hold with their tasks. Their cells have as large a share of the machine as all of it
// together; that of an executor that runs its tasks itself has their limits together.
type holdings struct {
	mutex     sync.Mutex
	executors map[api.ExecutorRef]*holding
	tasks     map[api.TaskRef]api.ExecutorRef
}

type holding struct {
	builtin bool
	own     cell.Limits
	sum     cell.Limits // of its tasks
	tasks   map[api.TaskID]cell.Limits
	memory  int64       // its limit: it never shrinks, as what the executor has kept can't be taken from it
	applied cell.Limits // what its cells are set to; zero: nothing yet
}

func newHoldings() holdings {
	return holdings{executors: map[api.ExecutorRef]*holding{}, tasks: map[api.TaskRef]api.ExecutorRef{}}
}

// begin notes a new executor.
func (h *holdings) begin(held Holding, rules cell.Rules) *holding {
	own := rules.Limits(&api.Task{Resources: held.Resources})
	own.CPUs = max(own.CPUs, 1000) // it has to answer in time, whatever it has asked for
	if own.Memory == 0 {
		own.Memory = ownMemory
	}
	h.drop(held.Executor)
	fresh := &holding{builtin: held.Builtin, own: own, tasks: map[api.TaskID]cell.Limits{}}
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
func (h *holdings) take(ref api.ExecutorRef, task *api.Task, rules cell.Rules) *holding {
	its := h.executors[ref]
	if its == nil {
		return nil
	}
	if _, known := its.tasks[task.ID]; !known {
		limits := rules.Limits(task)
		its.tasks[task.ID] = limits
		its.sum = plus(its.sum, limits, +1)
		h.tasks[api.TaskRef{Framework: ref.Framework, Task: task.ID}] = ref
	}
	return its
}

// release takes a task off; nil when nobody holds it.
func (h *holdings) release(task api.TaskRef) (api.ExecutorRef, *holding) {
	ref, known := h.tasks[task]
	if !known {
		return ref, nil
	}
	delete(h.tasks, task)
	its := h.executors[ref]
	its.sum = plus(its.sum, its.tasks[task.Task], -1)
	delete(its.tasks, task.Task)
	return ref, its
}

func plus(a, b cell.Limits, sign int64) cell.Limits {
	return cell.Limits{
		CPUs: a.CPUs + sign*b.CPUs, Quota: a.Quota + sign*b.Quota, Memory: a.Memory + sign*b.Memory, Pids: a.Pids + sign*b.Pids,
	}
}

// apply sets the cells of an executor to what it holds.
func (i *holding) apply(around cell.Cell, rules cell.Rules) error {
	all := plus(i.own, i.sum, +1)
	all.CPUs = steady(i.applied.CPUs, all.CPUs)
	weight := cell.Limits{CPUs: all.CPUs}
	if i.builtin {
		return i.set(weight, func() error { return around.Limit(weight) })
	}
	i.memory = max(i.memory, all.Memory)
	all.Memory = i.memory
	switch {
	case rules.PidsMax == 0:
		all.Pids = 0
	case len(i.tasks) >= manyTasks && all.Pids <= i.applied.Pids && i.applied.Pids <= 2*all.Pids: // it grows at once, and shrinks by halves
		all.Pids = i.applied.Pids
	}
	if !rules.HardQuota { // what one task may have is nothing that could be held for it alone
		all.Quota = 0
	}
	return i.set(all, func() error { return errors.Join(around.Limit(weight), around.Child(cell.Own).Limit(all)) })
}

// set writes limits that are not those which the cells have: the kernel's files are dear to write, and thousands of
// small tasks come and go in an executor without changing what is written there.
func (i *holding) set(limits cell.Limits, write func() error) error {
	if limits == i.applied {
		return nil
	}
	i.applied = cell.Limits{}
	if err := write(); err != nil {
		return err
	}
	i.applied = limits
	return nil
}

// manyTasks is from how many tasks on a limit of processes need not follow each of them down.
const manyTasks = 8

// steady is the weight that a cell has, as long as it is right to an eighth: it says only how what there is not enough
// of is shared.
func steady(has, wanted int64) int64 {
	if off := wanted - has; max(off, -off) <= has/8 {
		return has
	}
	return wanted
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
			c.holds.take(held.Executor, &held.Tasks[i], c.rules)
		}
		if around := c.of(held.Executor); around.Exists() {
			failures = append(failures, its.apply(around, c.rules))
		}
	}
	return errors.Join(failures...)
}

// Hold makes room for a task before its executor is handed it.
func (c *Cells) Hold(executor api.ExecutorRef, task *api.Task) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	if its := c.holds.take(executor, task, c.rules); its != nil {
		return c.settle(its, executor)
	}
	return nil
}

// Release takes back what a task has held that has ended.
func (c *Cells) Release(task api.TaskRef) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	if executor, its := c.holds.release(task); its != nil {
		return c.settle(its, executor)
	}
	return nil
}

// settle applies what an executor holds, unless its cell has gone or was never there.
func (c *Cells) settle(its *holding, executor api.ExecutorRef) error {
	around := c.of(executor)
	if err := its.apply(around, c.rules); err != nil && around.Exists() {
		return err
	}
	return nil
}
