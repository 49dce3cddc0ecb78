// Package recent is what a leader remembers of a framework for a while: how its latest offers ended, for people, and
// what became of its operations, for the framework itself. Both are bounded; the oldest is forgotten.
package recent

import (
	"slices"

	"github.com/tenderhq/tender/master/view"
)

// decisionsMax bounds what is remembered of one framework; when it is reached, the oldest is forgotten.
const decisionsMax = 20

// Decisions holds the latest decisions about one framework since this leader began to lead. It is empty for a framework
// that has been offered nothing.
type Decisions struct {
	latest []view.Decision
	oldest int // index of the oldest, once there are decisionsMax
}

// Add adds a decision; if there are decisionsMax, it replaces the oldest.
func (d *Decisions) Add(one view.Decision) {
	if len(d.latest) < decisionsMax {
		d.latest = append(d.latest, one)
		return
	}
	d.latest[d.oldest] = one
	d.oldest = (d.oldest + 1) % decisionsMax
}

// InOrder returns them in order, the newest last.
func (d *Decisions) InOrder() []view.Decision {
	return slices.Concat(d.latest[d.oldest:], d.latest[:d.oldest])
}
