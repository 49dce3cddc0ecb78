package view

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestAPageIsWhatSortingWouldSay for any rows and page.
func TestAPageIsWhatSortingWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 60).Draw(t, "rows")
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		after := rapid.IntRange(0, 20).Draw(t, "after")
		list := newRows[int](Query{Limit: limit, After: "row-" + strconv.Itoa(after)})
		for _, n := range numbers {
			list.add("row-"+strconv.Itoa(n), n)
		}
		want := slices.DeleteFunc(slices.Sorted(slices.Values(numbers)), func(n int) bool { return n <= after })
		next := ""
		if len(want) > limit {
			want = want[:limit]
			next = "row-" + strconv.Itoa(want[limit-1])
		}
		page := pageOf(list, func(n int) int { return n })
		if !slices.Equal(page.Items, want) || page.Next != next {
			t.Fatalf("the page of %v is %v and then %q, not %v and then %q", numbers, page.Items, page.Next, want, next)
		}
	})
}
