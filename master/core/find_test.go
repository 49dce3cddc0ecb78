package core

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCompareNatural(t *testing.T) {
	sorted := []string{"", "1", "01", "agent-2", "agent-10", "agent-10a", "agent-10b", "agent-011", "agent-x", "b"}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, compareNatural)
	if !slices.Equal(shuffled, sorted) {
		t.Errorf("sorted to %q, want %q", shuffled, sorted)
	}
	for _, a := range sorted {
		for _, b := range sorted {
			if ab, ba := compareNatural(a, b), compareNatural(b, a); (ab < 0) != (ba > 0) || (ab == 0) != (a == b) {
				t.Errorf("%q and %q compare to %d and back to %d", a, b, ab, ba)
			}
		}
	}
}

// TestFirstIsWhatSortingWouldSay for any rows and page.
func TestFirstIsWhatSortingWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 60).Draw(t, "rows")
		n := rapid.IntRange(1, 12).Draw(t, "n")
		wanted := func(row int) bool { return row%3 != 0 }
		want := slices.DeleteFunc(slices.Sorted(slices.Values(rows)), func(row int) bool { return !wanted(row) })
		want = want[:min(n, len(want))]
		if got := first(rows, n, cmp.Compare[int], wanted); !slices.Equal(got, want) {
			t.Fatalf("the first %d of %v are %v, not %v", n, rows, want, got)
		}
	})
}
