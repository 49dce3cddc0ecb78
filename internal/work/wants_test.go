package work_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// TestWants: what waits for the same shape is counted together, the highest priority comes first, and what no longer
// waits leaves nothing behind.
func TestWants(t *testing.T) {
	w := work.NewWants()
	want := func(cpus float64, count int64, priority int, role api.Role) work.Want {
		return work.Want{Shape: api.Shape{Resources: api.MustParseResources(fmt.Sprint("cpus:", cpus)), Count: count}, Role: role, Priority: priority}
	}
	small := w.Add(want(1, 3, 0, "web"))
	large := w.Add(want(2, 1, 5, "web"))
	if again := w.Add(want(1, 2, 1, "web")); again != small {
		t.Errorf("the same shape has the keys %q and %q", small, again)
	}
	if elsewhere := w.Add(want(1, 1, 0, "batch")); elsewhere == small {
		t.Error("two roles share a want")
	}
	spread := want(1, 1, 0, "web")
	spread.Spread, spread.Group = []api.Spread{{By: api.ByAgent, Most: 1}}, "g"
	if other := w.Add(spread); other == small {
		t.Error("a shape that is spread is the same as one that is not")
	} else {
		w.Remove(other, 1)
	}
	shown := func() (all []string) {
		for _, one := range w.In("web") {
			all = append(all, fmt.Sprint(one.Count, " of ", one.Resources, " at ", one.Priority))
		}
		return all
	}
	if got := shown(); !slices.Equal(got, []string{"1 of cpus:2 at 5", "5 of cpus:1 at 1"}) {
		t.Error(got)
	}
	w.Remove(large, 1)
	w.Remove(small, 4)
	if got := shown(); !slices.Equal(got, []string{"1 of cpus:1 at 1"}) {
		t.Error(got)
	}
}

// TestEachRoleIsStatedOnce: a demand is stated to the masters once, and again only where they may know it otherwise.
func TestEachRoleIsStatedOnce(t *testing.T) {
	w, roles := work.NewWants(), []api.Role{"a", "b"}
	for _, step := range []struct {
		before func()
		want   []api.Role
	}{
		{func() {}, roles},
		{func() {}, nil},
		{func() { w.Restate("b") }, roles[1:]},
		{w.RestateAll, roles},
	} {
		step.before()
		if got := w.Unstated(roles); !slices.Equal(got, step.want) {
			t.Errorf("%v, wanted %v", got, step.want)
		}
	}
}

// TestNoMoreThanMastersAccept: of more shapes than a demand may have the first ones are stated.
func TestNoMoreThanMastersAccept(t *testing.T) {
	if got := len(work.Stateable(make([]api.Shape, api.DemandsPerRoleMax+1))); got != api.DemandsPerRoleMax {
		t.Error(got)
	}
	long := api.Shape{Constraint: string(make([]byte, api.ConstraintBytesPerDemandMax/2))}
	if got := len(work.Stateable([]api.Shape{long, long, long})); got != 2 {
		t.Error(got)
	}
}
