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

// TestPagesOfAListing: read with any limits, by places or by names, through rows that are left out and pieces that end
// anywhere, every row that is selected is on one page, in order, and only the last page says that it is the last.
func TestPagesOfAListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := make([]int, rapid.IntRange(0, 3*pieceRows).Draw(t, "rows"))
		step := rapid.IntRange(1, 1000).Draw(t, "step")
		for i := range numbers {
			numbers[i] = i * step % len(numbers)
		}
		every := rapid.IntRange(1, 5).Draw(t, "one in")
		list := &listing[int, int]{name: func(n int) string { return "row-" + strconv.Itoa(n) }}
		list.reader = func(Cluster, *Query) func(int) (int, bool) {
			return func(n int) (int, bool) { return n, n%every == 0 }
		}
		for _, n := range numbers {
			list.note(n)
		}
		list.Sort()
		want := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(numbers))), func(n int) bool { return n%every != 0 })
		var got []int
		for after, more := "", true; more; {
			query, page, done := Query{Limit: rapid.IntRange(1, 1000).Draw(t, "limit")}, Page[int]{}, false
			for at := list.After(after); !done; {
				at, done = list.Read(Cluster{}, &query, at, &page)
			}
			if got = append(got, page.Items...); len(page.Items) > query.Limit {
				t.Fatalf("a page of %d has %d", query.Limit, len(page.Items))
			}
			after, more = page.Next, page.Next != ""
			if more && len(page.Items) < query.Limit {
				t.Fatalf("a page of %d that is not the last has %d", query.Limit, len(page.Items))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d rows were read, not %d", len(got), len(want))
		}
	})
}
