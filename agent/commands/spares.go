package commands

import (
	"errors"
	"slices"
	"sync"

	"github.com/tenderhq/tender/agent/walls/cell"
)

const (
	// sparesMax is how many spares there are at most. Each consists of three control groups, to which up to a megabyte
	// may be charged that the kernel can take back.
	sparesMax = 32
	// gripsBelow is the file descriptor from which on the files of a spare are not kept open. The kernel gives out the
	// lowest number that is free, so this bounds how many are open.
	gripsBelow = 512
)

// spares are cells of ended tasks that wait for later tasks with the same limits. Most of what a cell costs a short
// task is to make and to remove its groups. The zero value is ready, and may be used from any goroutine.
type spares struct {
	mutex   sync.Mutex
	all     []taskCell // the oldest first
	numbers uint64     // how many names were given
}

// name returns a name that no spare of this executor has had.
func (s *spares) name() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.numbers++
	return cell.SpareName(s.numbers)
}

// put adds a spare. If there are too many it removes and returns the oldest, whose limits are the least likely to be
// wanted.
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

// take removes and returns the newest spare with these limits.
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

// reuse makes a spare with the limits of a task's cell that cell, and reports whether there was one.
func (c *cells) reuse(its *taskCell) bool {
	spare, found := c.spares.take(its.limits)
	if !found {
		return false
	}
	taken, err := its.TakeOver(spare.Cell)
	if err != nil {
		_ = spare.remove() // it is removed with the executor's cell at the latest
		return false
	}
	its.Cell, its.spare, its.grip = taken, spare.spare, spare.grip
	return true
}

// keep makes the cell of an ended task a spare, if the cell is like a new one. If it is not, rest names what is left of
// the cell. No process may be about to enter the cell.
func (c *cells) keep(its *taskCell) (rest cell.Cell, kept bool) {
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
	if its.grip == nil {
		if its.grip, err = aside.Grip(); err != nil {
			return aside, false
		}
	}
	if !its.grip.IsAsNew() || its.byRoot && !aside.IsUntouched(its.limits) {
		return aside, false
	}
	if its.grip.Highest() >= gripsBelow {
		its.letGo()
	}
	spare := *its
	spare.Cell = aside
	if oldest, tooMany := c.spares.put(spare); tooMany {
		_ = oldest.remove() // it is removed with the executor's cell at the latest
	}
	return aside, true
}

// removeSpares removes all spares.
func (c *cells) removeSpares() error {
	if c == nil {
		return nil
	}
	c.spares.mutex.Lock()
	defer c.spares.mutex.Unlock()
	var failures []error
	for _, one := range c.spares.all {
		failures = append(failures, one.remove())
	}
	c.spares.all = nil
	return errors.Join(failures...)
}
