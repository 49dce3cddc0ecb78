package admission_test

import (
	"testing"

	"github.com/tenderhq/tender/master/core/admission"
)

// TestOneOfEachAsks: of one framework one session asks at a time, the others in the order in which they came.
func TestOneOfEachAsks(t *testing.T) {
	lines := admission.NewLines[int]()
	for _, s := range []int{1, 2, 3} {
		lines.Wait("f1", s)
	}
	lines.Wait("f2", 9)
	asks := func(want int) {
		t.Helper()
		if s, is := lines.Next(); s != want || is != (want != 0) {
			t.Errorf("%d asks, not %d", s, want)
		}
	}
	asks(1)
	asks(9)
	asks(0)
	if !lines.Leave("f1", 2) || lines.Leave("f1", 2) {
		t.Error("a session leaves its line once")
	}
	lines.Answered("f1")
	asks(3)
}

// TestLinesAreBounded: so many wait for one framework, and no more.
func TestLinesAreBounded(t *testing.T) {
	lines := admission.NewLines[int]()
	for s := range admission.LineMax {
		if !lines.Wait("f1", s) {
			t.Fatalf("session %d finds no place", s)
		}
	}
	if lines.Wait("f1", admission.LineMax) {
		t.Error("one more than may wait has found a place")
	}
}
