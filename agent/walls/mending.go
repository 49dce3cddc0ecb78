package walls

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// mending makes cells again that somebody has removed from outside: whoever tidies a machine may take empty control
// groups away, and without them every launch would fail.
type mending struct {
	mutex sync.Mutex // one at a time looks for what is missing, and makes it
	told  sync.Once
	tell  func(removed string)
}

// OnRemoval has tell called the first time that control groups are found to have been removed, before anything is started.
func (c *Cells) OnRemoval(tell func(removed string)) {
	if c != nil {
		c.mends.tell = tell
	}
}

// say tells of it once: whoever removes them may do so again and again.
func (m *mending) say(removed cell.Cell) {
	m.told.Do(func() {
		if m.tell != nil {
			m.tell(removed.String())
		}
	})
}

// mendRoot makes the agent's own cell again if it was removed, with its limits.
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

// Mend makes the cell of an executor that runs again, if it was removed, with what it holds, and puts the executor's
// process back into it: nobody can have removed it with the process inside, so somebody has taken that out before. What
// the executor itself has started meanwhile stays where it is. living tells its process; 0: it has ended, and its cell with
// it.
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
		_ = around.Remove() // as it was: with a process in it, it stays
		return fmt.Errorf("the executor's control group was removed and can't be made again: %w", err)
	}
	return nil
}

// limitAgain sets the cells of an executor, which are new, to what it holds.
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
