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
	rows = slices.DeleteFunc(rows, func(row R) bool {
		return query.After != "" && compareNatural(name(row), query.After) <= 0
	})
	slices.SortFunc(rows, func(a, b R) int { return compareNatural(name(a), name(b)) })
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

// wantsState says whether the query selects the state.
func (q Query) wantsState(state string) bool {
	return len(q.States) == 0 || slices.ContainsFunc(q.States, func(wanted string) bool { return strings.EqualFold(wanted, state) })
}

// wantsName says whether the query selects an ID, by its start, or by the whole name.
func (q Query) wantsName(id, name string) bool {
	return q.Prefix == "" || strings.HasPrefix(id, q.Prefix) || name == q.Prefix
}
