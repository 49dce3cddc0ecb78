package view

import (
	"iter"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// Query selects a page of a list, in the natural order of the IDs. Zero fields select everything. A row is not left out
// because of something that a follower does not know about it.
type Query struct {
	Limit     int    // 0 or too large = api.PageItemsMax
	After     string // continue after this ID
	Prefix    string // start of the ID (of tasks: FRAMEWORK/TASK or TASK), or the whole name
	Agent     api.AgentID
	Framework api.FrameworkID
	Role      api.Role
	States    []string // names, any case
	All       bool     // tasks: also those that have ended; frameworks: also those that were removed
}

// wantsState reports whether the query selects the state.
func (q *Query) wantsState(state string) bool {
	return len(q.States) == 0 || slices.ContainsFunc(q.States, func(wanted string) bool { return strings.EqualFold(wanted, state) })
}

// wantsName reports whether the query selects an ID by its start, or by the whole name.
func (q *Query) wantsName(id, name string) bool {
	return q.Prefix == "" || strings.HasPrefix(id, q.Prefix) || name == q.Prefix
}

// Page is a part of a list. Next is the After of the following page; "" at the end.
type Page[T any] struct {
	Items []T
	Next  string
}

// rows keeps the first rows of a list that is made for one page, in the natural order of their names: those of the page,
// and one more that shows whether another page follows. However many rows are added, little more than that is kept and
// sorted. What is kept anyway is read by a [Listing].
type rows[R any] struct {
	after string
	most  int
	kept  []row[R]
	full  bool // nothing after kept[most-1] belongs to the page
}

type row[R any] struct {
	name string
	of   R
}

func newRows[R any](query Query) *rows[R] {
	return &rows[R]{after: query.After, most: query.most() + 1}
}

// most returns how many rows a page has at most.
func (q *Query) most() int {
	if q.Limit <= 0 || q.Limit > api.PageItemsMax {
		return api.PageItemsMax
	}
	return q.Limit
}

// add adds a row that the query selects.
func (r *rows[R]) add(name string, of R) {
	if r.after != "" && words.CompareNatural(name, r.after) <= 0 || r.full && words.CompareNatural(name, r.kept[r.most-1].name) > 0 {
		return
	}
	if r.kept = append(r.kept, row[R]{name, of}); len(r.kept) == 2*r.most {
		r.sort()
		r.full = true
	}
}

// sort sorts the rows and keeps the first ones.
func (r *rows[R]) sort() {
	slices.SortFunc(r.kept, func(a, b row[R]) int { return words.CompareNatural(a.name, b.name) })
	r.kept = r.kept[:min(r.most, len(r.kept))]
}

// pageOf returns the rows of one page, converted by show.
func pageOf[R, V any](r *rows[R], show func(R) V) Page[V] {
	r.sort()
	var page Page[V]
	for i, row := range r.kept {
		if i == r.most-1 {
			page.Next = r.kept[i-1].name
			break
		}
		page.Items = append(page.Items, show(row.of))
	}
	return page
}

// List returns a page of items that are kept elsewhere, selected by their ID and state.
func List[V any](query Query, all iter.Seq[V], id, state func(V) string) Page[V] {
	list := newRows[V](query)
	for one := range all {
		if query.wantsName(id(one), "") && query.wantsState(state(one)) {
			list.add(id(one), one)
		}
	}
	return pageOf(list, func(one V) V { return one })
}
