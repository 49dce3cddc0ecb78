package keeper

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
)

// line is a queue of jobs that have something waiting: the highest priority first, and among equals the job with the
// fewest tasks.
type line []*want

func byTurn(a, b *want) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.busy, b.busy), cmp.Compare(a.name, b.name))
}

// plain reports whether the ask differs in nothing from others of its shape, so that if one of them finds no room, none
// does.
func plain(ask core.Ask) bool {
	return !ask.Gang && !ask.Copy && !ask.Avoids && ask.Task.Spread == "" && len(ask.Task.Where) == 0 && ask.Task.Constraint == ""
}

func (l *line) enter(want *want) {
	at, _ := slices.BinarySearchFunc(*l, want, byTurn)
	*l = slices.Insert(*l, at, want)
}

func (l *line) leave(want *want) {
	at, _ := slices.BinarySearchFunc(*l, want, byTurn)
	*l = slices.Delete(*l, at, at+1)
}

// move gives the job the place in the line that it has with so many tasks.
func (l *line) move(want *want, busy int) {
	if want.busy != busy {
		l.leave(want)
		want.busy = busy
		l.enter(want)
	}
}

// turns yields each waiting job when it is its turn, but not those that wait for nothing but a shape for which the caller
// has found no room meanwhile. During a job's turn only that job may change.
func (l line) turns(full map[string]bool) iter.Seq[*want] {
	return func(yield func(*want) bool) {
		for _, want := range slices.Clone(l) {
			if !full[want.only] && !yield(want) {
				return
			}
		}
	}
}
