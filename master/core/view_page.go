package core

import (
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// paged makes a page of the rows that a query wants, in the natural order of their
// names. Only the rows of the page are shown; all others cost no more than their name.
func paged[R, V any](query Query, rows []R, name func(R) string, show func(R) V) Page[V] {
	limit := query.Limit
	if limit <= 0 || limit > api.PageItemsMax {
		limit = api.PageItemsMax
	}
	rows = first(rows, limit+1, func(a, b R) int { return compareNatural(name(a), name(b)) }, func(row R) bool {
		return query.After == "" || compareNatural(name(row), query.After) > 0
	})
	var page Page[V]
	for i, row := range rows {
		if i == limit {
			page.Next = name(rows[i-1])
			break
		}
		page.Items = append(page.Items, show(row))
	}
	return page
}

// first returns the n first of the rows that are wanted, in order. It sorts no more than
// twice as many at a time: the loop that reads a page must not stand still for a list
// of 50,000.
func first[R any](rows []R, n int, compare func(a, b R) int, wanted func(R) bool) []R {
	kept := make([]R, 0, min(2*n, len(rows)))
	full := false // kept[n-1] is behind all that count
	for _, row := range rows {
		if !wanted(row) || full && compare(row, kept[n-1]) > 0 {
			continue
		}
		if kept = append(kept, row); len(kept) == 2*n {
			slices.SortFunc(kept, compare)
			kept, full = kept[:n], true
		}
	}
	slices.SortFunc(kept, compare)
	return kept[:min(n, len(kept))]
}

// wantsState says whether the query selects the state.
func (q Query) wantsState(state string) bool {
	return len(q.States) == 0 || slices.ContainsFunc(q.States, func(wanted string) bool { return strings.EqualFold(wanted, state) })
}

// wantsName says whether the query selects an ID, by its start, or by the whole name.
func (q Query) wantsName(id, name string) bool {
	return q.Prefix == "" || strings.HasPrefix(id, q.Prefix) || name == q.Prefix
}
