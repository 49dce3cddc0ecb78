package api_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
)

// model is the set of the numbers in some ranges, all below 64.
func model(r api.Ranges) (bits uint64) {
	for _, one := range r {
		for x := one.Begin; x <= one.End; x++ {
			bits |= 1 << x
		}
	}
	return bits
}

func TestRangesAreSetsOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRanges(t), genRanges(t)
		check := func(what string, got api.Ranges, want uint64) {
			if model(got) != want || !slices.Equal(got, api.NewRanges(got...)) {
				t.Fatalf("%v %s %v = %v", a, what, b, got)
			}
		}
		check("union", a.Union(b), model(a)|model(b))
		check("minus", a.Minus(b), model(a)&^model(b))
		check("intersect", a.Intersect(b), model(a)&model(b))
		if a.Contains(b) != (model(b)&^model(a) == 0) {
			t.Fatalf("%v contains %v: %v", a, b, a.Contains(b))
		}
		var numbers []uint64
		for x := range uint64(64) {
			if model(a)&(1<<x) != 0 {
				numbers = append(numbers, x)
			}
		}
		if a.Len() != uint64(len(numbers)) {
			t.Fatalf("%v has %d numbers, Len says %d", a, len(numbers), a.Len())
		}
		n := rapid.IntRange(0, 70).Draw(t, "n")
		if first := a.First(n); !slices.Equal(first, numbers[:min(n, len(numbers))]) {
			t.Fatalf("first %d of %v: %v", n, a, first)
		}
	})
}

func TestRangesAtTheEnds(t *testing.T) {
	const top = math.MaxUint64
	joined := api.NewRanges(api.Range{Begin: top, End: top}, api.Range{Begin: 5, End: 3}, api.Range{Begin: 0, End: 0}, api.Range{Begin: top - 1, End: top - 1})
	if got := joined.String(); got != "[0,18446744073709551614-18446744073709551615]" {
		t.Error(got)
	}
	if got := joined.First(9); !slices.Equal(got, []uint64{0, top - 1, top}) {
		t.Error(got)
	}
	all := api.Ranges{{Begin: 0, End: top}}
	if got := all.Minus(joined).String(); got != "[1-18446744073709551613]" {
		t.Error(got)
	}
	if got := all.Minus(all); len(got) != 0 {
		t.Error(got)
	}
	if !all.Contains(joined) || joined.Contains(all) {
		t.Error("containment at the ends")
	}
	if got := all.Len(); got != top {
		t.Errorf("%d numbers; as many as can be said", got)
	}
}

func TestSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genSet(t), genSet(t)
		has := func(s api.Set, word string) bool { return slices.Contains(s, word) }
		for _, word := range []string{"a", "b", "c", "d", "e"} {
			if has(a.Union(b), word) != (has(a, word) || has(b, word)) || has(a.Minus(b), word) != (has(a, word) && !has(b, word)) ||
				has(a.Intersect(b), word) != (has(a, word) && has(b, word)) {
				t.Fatalf("%v and %v: %s", a, b, word)
			}
		}
		if a.Contains(b) != (len(b.Minus(a)) == 0) {
			t.Fatalf("%v contains %v: %v", a, b, a.Contains(b))
		}
	})
}
