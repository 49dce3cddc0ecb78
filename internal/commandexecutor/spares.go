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
	all     []taskCell // the oldest first
	numbers uint64     // so many have had a name
}

// name is one that no spare of this executor has had.
func (s *spares) name() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.numbers++
	return cell.SpareName(s.numbers)
}

// put adds one, and gives the oldest away when there are too many: its limits are the least likely to be asked for.
func (s *spares) put(one taskCell) (oldest taskCell, tooMany bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all = append(s.all, one)
	if len(s.all) <= sparesMax {
		return taskCell{}, false
	}
	oldest = s.all[0]
	s.all = slices.Delete(s.all, 0, 1)
	return oldest, true
}

// take gives the newest one with these limits away.
func (s *spares) take(limits cell.Limits) (one taskCell, found bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, one := range slices.Backward(s.all) {
		if one.limits == limits {
			s.all = slices.Delete(s.all, i, i+1)
			return one, true
		}
	}
	return taskCell{}, false
}

// reuse makes a spare with its limits the cell of a task, if there is one.
func (c *cells) reuse(its *taskCell) bool {
	spare, found := c.spares.take(its.limits)
	if !found {
		return false
	}
	taken, err := its.TakeOver(spare.Cell)
	if err != nil {
		_ = spare.Remove() // it goes with the executor's at the latest
		return false
	}
	its.Cell, its.spare = taken, spare.spare
	return true
}

// keep makes the cell of an ended task a spare, if nothing of the task is left in it or known of it. If it does not, rest is
// where what is left of the cell is now. Nothing may be about to enter the cell.
func (c *cells) keep(its taskCell) (rest cell.Cell, kept bool) {
	if !its.CanSpare() {
		return its.Cell, false
	}
	if its.spare == "" {
		its.spare = c.spares.name()
	}
	aside, err := its.SetAside(c.Cell.Child(its.spare).Brief())
	if err != nil {
		return its.Cell, false
	}
	if !aside.IsAsNew() || its.byRoot && !aside.IsUntouched(its.limits) {
		return aside, false
	}
	its.Cell = aside
	if oldest, tooMany := c.spares.put(its); tooMany {
		_ = oldest.Remove() // it goes with the executor's at the latest
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
		failures = append(failures, one.Remove())
	}
	c.spares.all = nil
	return errors.Join(failures...)
}
