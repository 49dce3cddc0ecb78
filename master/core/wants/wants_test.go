package wants_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/wants"
)

func cpus(n float64) api.Resources {
	return api.NewResources(api.Resource{Label: api.Label{Name: "cpus"}, Scalar: api.MilliOf(n)})
}

func shape(n float64, count int64) api.Shape {
	return api.Shape{Resources: cpus(n), Count: count}
}

// TestStated: what is stated is told apart from nothing that was ever stated, also when it is nothing, and its shapes
// are counted.
func TestStated(t *testing.T) {
	w := wants.New()
	if w.IsStated("web", nil) {
		t.Error("nothing was stated, and it counts as a demand for nothing")
	}
	if more := w.State("web", []api.Shape{shape(1, 2), shape(2, 1)}); more != 2 {
		t.Errorf("two shapes are %d more", more)
	}
	if more := w.State("web", []api.Shape{shape(1, 2)}); more != -1 || w.Shapes() != 1 {
		t.Errorf("one instead of two are %d more, and %d in all", more, w.Shapes())
	}
	if !w.IsStated("web", []api.Shape{shape(1, 2)}) || w.IsStated("web", []api.Shape{shape(1, 3)}) {
		t.Error("it does not know its own demand")
	}
	w.State("batch", []api.Shape{})
	if !w.IsStated("batch", nil) || !slices.Equal(w.Stated(), []api.Role{"batch", "web"}) {
		t.Errorf("demands in %v are stated", w.Stated())
	}
	if less := w.Unstate("web"); less != 1 || len(w.Demand()) != 1 {
		t.Errorf("%d shapes less, and %v is left", less, w.Demand())
	}
}

// TestSuppressed: only the last word for a role counts.
func TestSuppressed(t *testing.T) {
	w := wants.New()
	w.Suppress([]api.Role{"a", "b"})
	w.Revive([]api.Role{"b", "c"})
	if got := w.Suppressed(); !slices.Equal(got, []api.Role{"a"}) {
		t.Errorf("%v are suppressed", got)
	}
	w.SuppressOnly([]api.Role{"c"})
	if got := w.Suppressed(); !slices.Equal(got, []api.Role{"c"}) {
		t.Errorf("%v are suppressed", got)
	}
}

// TestFromAnother: an instance that takes over states its own demand, once.
func TestFromAnother(t *testing.T) {
	w := wants.New()
	if !w.FromAnother("i1") || w.FromAnother("i1") || !w.FromAnother("i2") {
		t.Error("an instance does not know its own demand from another's")
	}
}

// TestCountDown: launched tasks count once, and what is not wanted changes nothing.
func TestCountDown(t *testing.T) {
	w := wants.New()
	w.State("web", []api.Shape{shape(1, 2)})
	launch := []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{{ID: "t1", Resources: cpus(1)}}}}
	anywhere := func(*api.Shape) bool { return true }
	if left, counted := w.CountDown("web", launch, anywhere); !counted || len(left) != 1 || left[0].Count != 1 {
		t.Errorf("%v is left, %v", left, counted)
	}
	if w.In("web")[0].Count != 2 {
		t.Error("the demand itself was changed")
	}
	other := []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{{ID: "t2", Resources: cpus(3)}}}}
	if left, counted := w.CountDown("web", other, anywhere); counted {
		t.Errorf("a task that was not wanted leaves %v", left)
	}
}

// TestCheck: each bound refuses what is beyond it.
func TestCheck(t *testing.T) {
	w := wants.New()
	w.State("other", []api.Shape{{Resources: cpus(1), Count: 1, Constraint: "c0"}})
	room := func(int) error { return nil }
	usable := func(string) error { return nil }
	many := make([]api.Shape, api.DemandsPerRoleMax)
	for i := range many {
		many[i] = api.Shape{Resources: cpus(1), Count: 1, Constraint: fmt.Sprintf("c%d", i)}
	}
	no := errors.New("no")
	for name, test := range map[string]struct {
		shapes []api.Shape
		room   func(int) error
		usable func(string) error
		want   api.Kind
	}{
		"one":          {[]api.Shape{shape(1, 1)}, room, usable, 0},
		"all":          {many, room, usable, 0},
		"one too many": {append(slices.Clone(many), shape(1, 1)), room, usable, api.Limit},
		"no room":      {[]api.Shape{shape(1, 1)}, func(int) error { return no }, usable, api.Limit},
		"constraints":  {append(slices.Clone(many[1:]), api.Shape{Resources: cpus(1), Count: 1, Constraint: "last"}), room, usable, api.Limit},
		"not usable":   {[]api.Shape{shape(1, 1)}, room, func(string) error { return no }, api.Invalid},
		"no shape":     {[]api.Shape{{Count: -1}}, room, usable, api.Invalid},
	} {
		if kind, err := w.Check("web", test.shapes, test.room, test.usable); kind != test.want || (err == nil) != (test.want == 0) {
			t.Errorf("%s: %v, %v", name, kind, err)
		}
	}
}
