package core

import (
	"reflect"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/internal/value"
)

// twin is a clone of a world's core that is given the same events. For every event of every transcript and history it
// checks that a clone gives the same effects and has the same state as its original, and that neither sees what the
// other does.
type twin struct {
	of      *Core // the core of which it is a clone
	core    *Core
	before  *Core // the original, as it was before the event
	effects []Effect
}

// tell steps the event in the twin first.
func (t *twin) tell(w *world, event Event) {
	if t == nil {
		return
	}
	if t.of != w.core { // a core of its own began after a restart
		t.of, t.core = w.core, w.core.Clone()
	}
	t.before = w.core.Clone()
	t.effects = t.core.Step(event)
	t.same(w, "the original has changed with its clone", t.before, w.core)
}

// compare checks that the original has done the same.
func (t *twin) compare(w *world, effects []Effect) {
	if t == nil {
		return
	}
	t.same(w, "a clone that is told the same has other effects", effects, t.effects)
	t.same(w, "a clone that is told the same stands elsewhere", w.core, t.core)
}

func (t *twin) same(w *world, otherwise string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		w.t.Fatalf("%s (-original +clone):\n%s", otherwise, cmp.Diff(value.Text(want), value.Text(got)))
	}
}
