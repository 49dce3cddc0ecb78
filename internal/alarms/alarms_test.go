package alarms_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/alarms"
)

// second is a moment, so many seconds after the beginning.
func second(n int) time.Time { return time.Unix(int64(n), 0) }

// due takes out all that is due in that second.
func due(a *alarms.Alarms[string], n int) (what []string) {
	for one, is := a.Due(second(n)); is; one, is = a.Due(second(n)) {
		what = append(what, one)
	}
	return what
}

// TestOrder: the earliest is first, and of those at equal moments the one that was set first. One that is set again
// moves, and stands behind those of its new moment.
func TestOrder(t *testing.T) {
	var a alarms.Alarms[string]
	moved := a.Add(second(1), "moved")
	a.Add(second(3), "late")
	for _, what := range []string{"a", "b", "c"} {
		a.Add(second(2), what)
	}
	a.Set(moved, second(2))
	if next := a.Next(); !next.Equal(second(2)) {
		t.Errorf("the first is due at %v", next)
	}
	if early := due(&a, 1); early != nil {
		t.Errorf("%v are due too early", early)
	}
	if got := due(&a, 2); !slices.Equal(got, []string{"a", "b", "c", "moved"}) {
		t.Errorf("%v are due", got)
	}
	if a.Len() != 1 || !a.Next().Equal(second(3)) {
		t.Errorf("%d are left, the first at %v", a.Len(), a.Next())
	}
}

// TestClear: one that was taken back is not due, may be taken back again, and may be set again.
func TestClear(t *testing.T) {
	var a alarms.Alarms[string]
	one := alarms.Of("one")
	var none *alarms.Alarm[string]
	a.Clear(none)
	a.Clear(one)
	a.Set(one, second(1))
	a.Add(second(2), "two")
	if a.Clear(one); one.IsSet() || none.IsSet() {
		t.Error("it is set after it was taken back")
	}
	if got := due(&a, 1); got != nil {
		t.Errorf("%v are due", got)
	}
	a.Set(one, second(3))
	if got := due(&a, 3); !slices.Equal(got, []string{"two", "one"}) || one.IsSet() || !a.Next().IsZero() {
		t.Errorf("%v are due, the next at %v", got, a.Next())
	}
}

// TestShift: only those that are named move, and the others keep their moments.
func TestShift(t *testing.T) {
	var a alarms.Alarms[string]
	for n, what := range []string{"stays", "moves", "stays", "moves", "stays"} {
		a.Add(second(n), what)
	}
	a.Shift(10*time.Second, func(what string) bool { return what == "moves" })
	if got := due(&a, 4); !slices.Equal(got, []string{"stays", "stays", "stays"}) {
		t.Errorf("%v are due", got)
	}
	if got := due(&a, 13); !slices.Equal(got, []string{"moves", "moves"}) {
		t.Errorf("%v are due", got)
	}
}

// TestRemove: only those that are named are taken back.
func TestRemove(t *testing.T) {
	var a alarms.Alarms[string]
	for n, what := range []string{"stays", "goes", "goes", "stays", "goes"} {
		a.Add(second(n), what)
	}
	a.Remove(func(what string) bool { return what == "goes" })
	if got := due(&a, 9); !slices.Equal(got, []string{"stays", "stays"}) {
		t.Errorf("%v are due", got)
	}
}
