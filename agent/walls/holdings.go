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

// Holding is an executor with the tasks that it was handed and that have not ended yet.
type Holding struct {
	Executor  api.ExecutorRef
	Builtin   bool          // each of its tasks has a cell of its own
	Resources api.Resources // the executor's own, without those of its tasks
	Tasks     []api.Task
	GPUs      map[api.TaskID][]uint32 // the GPUs of each task, by their indices
}

// ownMemory is how many bytes an executor gets that requests no memory itself: its program needs some beside what its
// tasks request.
const ownMemory = 64 << 20

// holdings are what the executors hold: their own resources, and those of their tasks. The weight of an executor's cell
// is the sum of these. The cell of an executor that runs its tasks itself also has the sum of their limits.
type holdings struct {
	mutex     sync.Mutex
	executors map[api.ExecutorRef]*holding
	tasks     map[api.TaskRef]api.ExecutorRef
	late      map[api.ExecutorRef]bool // executors with tasks that have ended whose cells have not shrunk yet
	wake      chan struct{}            // has a value when something was added to late
}

type holding struct {
	builtin bool
	own     cell.Limits
	sum     cell.Limits // the sum of its tasks' limits
	tasks   map[api.TaskID]cell.Limits
	gpus    map[api.TaskID][]uint32
	memory  int64       // the limit of its cell in bytes; it never shrinks, because memory that the executor still uses can't be taken from it
	applied cell.Limits // the limits that its cells have; zero: none were set yet
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
	own.CPUs = max(own.CPUs, 1000) // whatever it has requested, it has to answer in time
	if own.Memory == 0 {
		own.Memory = ownMemory
	}
	h.drop(held.Executor)
	fresh := &holding{builtin: held.Builtin, own: own, tasks: map[api.TaskID]cell.Limits{}, gpus: map[api.TaskID][]uint32{}}
	h.executors[held.Executor] = fresh
	return fresh
}

// drop removes an executor with its tasks.
func (h *holdings) drop(ref api.ExecutorRef) {
	if old := h.executors[ref]; old != nil {
		for task := range old.tasks { // order: irrelevant because each is deleted
			delete(h.tasks, api.TaskRef{Framework: ref.Framework, Task: task})
		}
		delete(h.executors, ref)
	}
}

// forget removes an executor that has ended, with its tasks.
func (h *holdings) forget(ref api.ExecutorRef) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.drop(ref)
}

// take adds a task to its executor, which is known, unless the task is there already.
func (h *holdings) take(ref api.ExecutorRef, task *api.Task, gpus []uint32, rules cell.Rules) {
	its := h.executors[ref]
	if _, known := its.tasks[task.ID]; !known {
		limits := rules.Limits(task)
		its.tasks[task.ID] = limits
		if len(gpus) > 0 {
			its.gpus[task.ID] = gpus
		}
		its.sum = plus(its.sum, limits, +1)
		h.tasks[api.TaskRef{Framework: ref.Framework, Task: task.ID}] = ref
	}
}

// release removes a task from its executor, and says whether the task had GPUs. its is nil if no executor has the task.
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

// apply sets the limits of an executor's cells to what the executor holds. Unless shrinks is set, limits that are
// higher stay: so where thousands of small tasks come and go, hardly any of them causes a write.
func (i *holding) apply(around cell.Cell, rules cell.Rules, shrinks bool) error {
	all := plus(i.own, i.sum, +1)
	i.memory = max(i.memory, all.Memory)
	all.Memory = i.memory
	if rules.PidsMax == 0 {
		all.Pids = 0
	}
	if !rules.HardQuota { // without it only tasks that ask for a quota have one, so there is no sum for the executor
		all.Quota = 0
	}
	if i.builtin { // each task of the built-in executor has limits of its own
		all = cell.Limits{CPUs: all.CPUs}
	}
	if !shrinks {
		all = grown(i.applied, all)
	}
	return i.set(all, around)
}

// grown returns the higher of the limits that a cell has and those that are wanted. A weight that is too low by at most
// an eighth stays, as it says only how scarce processors are shared.
func grown(has, wanted cell.Limits) cell.Limits {
	if wanted.CPUs <= has.CPUs+has.CPUs/8 {
		wanted.CPUs = has.CPUs
	}
	wanted.Quota, wanted.Pids = max(has.Quota, wanted.Quota), max(has.Pids, wanted.Pids)
	return wanted
}

// set writes those limits that the cells do not have yet. After a failure it is not known which they have, so the next
// call writes them all.
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

// write writes those limits that differ from the ones that the cells have.
func (i *holding) write(has, limits cell.Limits, around cell.Cell) error {
	err := around.Change(cell.Limits{CPUs: has.CPUs}, cell.Limits{CPUs: limits.CPUs})
	if i.builtin {
		return err
	}
	return errors.Join(err, around.Child(cell.Own).Change(has, limits))
}

// Remember notes what executors hold, and sets the limits of their cells accordingly. An agent calls it for the
// executors that have survived its restart.
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

// Hold raises the limits of an executor's cell for tasks, and permits their GPUs. It must be called before the executor
// is handed them.
func (c *Cells) Hold(executor api.ExecutorRef, tasks []*api.Task, gpus map[api.TaskID][]uint32) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	its := c.holds.executors[executor]
	if its == nil {
		return nil
	}
	var indices []uint32
	for _, task := range tasks {
		c.holds.take(executor, task, gpus[task.ID], c.rules)
		indices = append(indices, gpus[task.ID]...)
	}
	return errors.Join(c.settle(its, executor, false), c.giveGPUs(its, executor, indices))
}

// giveGPUs permits an executor that runs its tasks itself to use these GPUs.
func (c *Cells) giveGPUs(its *holding, executor api.ExecutorRef, gpus []uint32) error {
	if its.builtin || len(gpus) == 0 {
		return nil
	}
	around, devices := c.of(executor), c.config.GPUs.Own(gpus)
	return errors.Join(around.Allow(devices), around.Child(cell.Own).Allow(devices))
}

// takeGPUs denies an executor all GPUs except those of the tasks that it still has. Others that it has open stay open.
func (c *Cells) takeGPUs(its *holding, executor api.ExecutorRef) error {
	var left []uint32
	for _, gpus := range its.gpus { // order: irrelevant because the indices are a set
		left = append(left, gpus...)
	}
	return c.of(executor).Deny(c.config.GPUs.Others(left))
}

// Release takes back what an ended task has held. Its GPUs are denied at once. The limits of its executor's cell are
// lowered later, by ShrinkByAndBy.
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
	default: // the loop is to be woken already
	}
	if gpus && !its.builtin {
		return c.takeGPUs(its, executor)
	}
	return nil
}

// shrinkAfter is how long a cell keeps the limits that ended tasks needed, since the next tasks may need as much.
const shrinkAfter = time.Second

// ShrinkByAndBy lowers the limits of executors' cells some time after tasks have ended, until the context ends. It
// calls failed with each error.
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
			return // the agent's next process sets all limits anew
		}
		if err := c.Shrink(); err != nil {
			failed(err)
		}
	}
}

// Shrink sets the limits of cells of executors with ended tasks to what these executors hold now.
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

// settle applies what an executor holds to its cell. It is no error if there is no cell.
func (c *Cells) settle(its *holding, executor api.ExecutorRef, shrinks bool) error {
	around := c.of(executor)
	if err := its.apply(around, c.rules, shrinks); err != nil && around.Exists() {
		return err
	}
	return nil
}
