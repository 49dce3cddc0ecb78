package walls

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// mending makes cells again that somebody else has removed. People and programs that tidy a machine may remove empty
// control groups, and without them every launch would fail.
type mending struct {
	mutex sync.Mutex // held while the agent's cell is looked for and made again
	told  sync.Once
	tell  func(removed string)
}

// OnRemoval sets a function that is called the first time that a control group is found to have been removed. It must
// be called before anything is started.
func (c *Cells) OnRemoval(tell func(removed string)) {
	if c != nil {
		c.mends.tell = tell
	}
}

// say tells of a removed cell. It does so once, because cells may be removed again and again.
func (m *mending) say(removed cell.Cell) {
	m.told.Do(func() {
		if m.tell != nil {
			m.tell(removed.String())
		}
	})
}

// mendRoot makes the agent's own cell again, with its limits, if it was removed.
func (c *Cells) mendRoot() error {
	c.mends.mutex.Lock()
	defer c.mends.mutex.Unlock()
	had, err := c.tree.Restore()
	if had {
		c.mends.say(c.tree.Root)
	}
	if err != nil {
		return fmt.Errorf("the agent's control group was removed and can't be made again: %w", err)
	}
	return nil
}

// Mend makes the cell of a running executor again if it was removed, with the limits that follow from what the executor
// holds. It also moves the executor's process back into the cell. A cell can't be removed with a process in it, so
// somebody must have moved the process out before. Processes that the executor has started meanwhile stay where they
// are. living returns the number of the executor's process; 0 if the executor has ended, and then no cell is made.
func (c *Cells) Mend(ref api.ExecutorRef, living func(api.ExecutorRef) int) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	around := c.of(ref)
	own := around.Child(cell.Own)
	if own.Whole() {
		return nil
	}
	pid := living(ref)
	if pid == 0 {
		return nil
	}
	err := c.mendRoot()
	if err == nil {
		c.mends.say(around)
		err = errors.Join(around.MakeParent(), own.Make())
	}
	if err == nil {
		err = errors.Join(c.limitAgain(ref), own.Join(pid))
	}
	if err != nil {
		_ = around.Remove() // without a process in it the new cell goes again; with one it stays
		return fmt.Errorf("the executor's control group was removed and can't be made again: %w", err)
	}
	return nil
}

// limitAgain sets all limits of an executor's cells, which are new, to what the executor holds.
func (c *Cells) limitAgain(ref api.ExecutorRef) error {
	c.holds.mutex.Lock()
	defer c.holds.mutex.Unlock()
	err := c.of(ref).Child(cell.Own).Limit(cell.Limits{CPUs: 1000})
	its := c.holds.executors[ref]
	if its == nil {
		return err
	}
	its.applied = cell.Limits{}
	err = errors.Join(err, its.apply(c.of(ref), c.rules, true))
	if !its.builtin {
		err = errors.Join(err, c.takeGPUs(its, ref))
	}
	return err
}
