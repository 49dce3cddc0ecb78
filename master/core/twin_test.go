package core_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/internal/value"
	"github.com/tenderhq/tender/master/core"
)

// twins has clones made of a world's core, in the middle of its story. Each is told later what its original was told
// meanwhile. It holds that nothing the one is told shows in the other, that a clone gives the same effects, and that it
// stands where its original stands in the end.
type twins struct {
	every int // a clone is made once in so many events, and less often the longer the story is
	fail  func(format string, args ...any)

	inputs []inputs.Input // that the policy of the world's leader was told
	events int
	next   int // the event before which a clone is made

	original *core.Core
	clone    *core.Core // nil before the first
	stood    string     // the clone, when it was made
	told     []func(*core.Core) []core.Effect
	effects  [][]core.Effect
}

// listen has a new leader's policy heard, so that policies of clones can be told the same.
func (t *twins) listen(policy allocator.Allocator) allocator.Allocator {
	if t == nil {
		return policy
	}
	t.compare()
	t.clone, t.inputs = nil, nil
	return inputs.NewTap(policy, func(input inputs.Input) { t.inputs = append(t.inputs, input) }, nil)
}

// tell has the world's core do something.
func (w *world) tell(do func(*core.Core) []core.Effect) []core.Effect {
	t := w.twins
	if w.follows != nil {
		defer func() { w.follows.note(w.core.Changes()) }()
	}
	if t == nil {
		return do(w.core)
	}
	if t.events++; t.events >= t.next+t.every {
		t.next = t.events + t.events/4
		t.compare()
		policy := w.policy()
		for _, input := range t.inputs {
			input.Apply(policy)
		}
		t.original, t.clone, t.told, t.effects = w.core, w.core.Clone(policy), nil, nil
		t.stood = t.clone.Dump()
		if !t.clone.Equal(w.core) {
			t.differs("a clone differs from its original", w.core.Dump(), t.stood)
		}
	}
	effects := do(w.core)
	t.told, t.effects = append(t.told, do), append(t.effects, effects)
	return effects
}

// compare tells the clone what its original was told since it was made.
func (t *twins) compare() {
	if t.clone == nil {
		return
	}
	if now := t.clone.Dump(); now != t.stood {
		t.differs("what the original was told shows in the clone", t.stood, now)
	}
	wake, stood := t.original.Wake(), t.original.Dump()
	for i, do := range t.told {
		if effects := do(t.clone); !reflect.DeepEqual(effects, t.effects[i]) {
			t.differs("a clone that is told the same has other effects", value.Text(t.effects[i]), value.Text(effects))
		}
	}
	if now := t.original.Dump(); now != stood {
		t.differs("what the clone was told shows in the original", stood, now)
	}
	if !t.clone.Wake().Equal(wake) {
		t.fail("the original wants to be woken at %v, the clone at %v", wake, t.clone.Wake())
	}
	if !t.clone.Equal(t.original) {
		t.differs("a clone that was told the same stands elsewhere", stood, t.clone.Dump())
	}
}

func (t *twins) differs(what, want, got string) {
	t.fail("%s (-original +clone):\n%s", what, cmp.Diff(want, got))
}

// TestCoreIsAValue plays whatever may happen, with clones made on the way.
func TestCoreIsAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]string{"fairshare", "priority"}).Draw(t, "policy")
		x := newChaos(t, policy)
		x.twins = &twins{every: rapid.IntRange(20, 200).Draw(t, "every"), fail: t.Fatalf}
		x.lead()
		for range rapid.IntRange(20, 60).Draw(t, "moves") {
			action := actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")]
			x.move(action, rapid.IntRange(0, 60).Draw(t, "pick"))
		}
		x.twins.compare()
	})
}
