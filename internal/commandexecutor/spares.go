package commandexecutor

import (
	"errors"
	"slices"
	"sync"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// sparesMax is how many spares there are. Each is three groups of the kernel, with up to a megabyte of what it can take back.
const sparesMax = 32

// spares are cells of ended tasks that wait for next ones with the same limits. To make and to remove the groups is most of
// what a cell costs a short task. The zero value is ready, and may be used from any goroutine.
type spares struct {
	mutex   sync.Mutex
	all     []spare // the oldest first
	numbers uint64  // so many have had a name
}

type spare struct {
	cell   cell.Cell
	limits cell.Limits
}

// name is one that no spare of this executor has had.
func (s *spares) name() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.numbers++
	return cell.SpareName(s.numbers)
}

// put adds one, and gives the oldest away when there are too many: its limits are the least likely to be asked for.
func (s *spares) put(one spare) (oldest spare, tooMany bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all = append(s.all, one)
	if len(s.all) <= sparesMax {
		return spare{}, false
	}
	oldest = s.all[0]
	s.all = slices.Delete(s.all, 0, 1)
	return oldest, true
}

// take gives the newest one with these limits away.
func (s *spares) take(limits cell.Limits) (one spare, found bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, one := range slices.Backward(s.all) {
		if one.limits == limits {
			s.all = slices.Delete(s.all, i, i+1)
			return one, true
		}
	}
	return spare{}, false
}

// reuse makes a spare with these limits the cell of a task, if there is one.
func (c *cells) reuse(its cell.Cell, limits cell.Limits) bool {
	one, found := c.spares.take(limits)
	if !found {
		return false
	}
	if its.TakeOver(one.cell) == nil {
		return true
	}
	_ = one.cell.Remove() // it goes with the executor's at the latest
	return false
}

// keep makes the cell of an ended task a spare, if nothing of the task is left in it or known of it. If it does not, rest is
// where what is left of the cell is now. Nothing may be about to enter the cell.
func (c *cells) keep(its cell.Cell, limits cell.Limits) (rest cell.Cell, kept bool) {
	if !its.CanSpare() {
		return its, false
	}
	aside, err := its.SetAside(c.Cell.Child(c.spares.name()).Brief())
	if err != nil {
		return its, false
	}
	if !aside.IsAsNew(limits) {
		return aside, false
	}
	if oldest, tooMany := c.spares.put(spare{aside, limits}); tooMany {
		_ = oldest.cell.Remove() // it goes with the executor's at the latest
	}
	return aside, true
}

// removeSpares leaves none behind.
func (c *cells) removeSpares() error {
	if c == nil {
		return nil
	}
	c.spares.mutex.Lock()
	defer c.spares.mutex.Unlock()
	var failures []error
	for _, one := range c.spares.all {
		failures = append(failures, one.cell.Remove())
	}
	c.spares.all = nil
	return errors.Join(failures...)
}
