package view

import (
	"slices"

	"github.com/tenderhq/tender/internal/words"
)

// pieceRows bounds the rows that are looked at in one piece of a page, while the leader's loop waits.
const pieceRows = 4 * 1024

// Listing is a list whose rows were noted at a moment, to be read in pages. To note them costs a look at each name. A
// page costs the rows on it, and those that are looked at and left out. A row is read as it is when its page is read:
// what is no more by then is not on it, and what has begun since the rows were noted is not in the list. Of rows of one
// name the one that was noted first is shown. Once it is sorted, several may read it.
type Listing[V any] interface {
	// Len returns how many rows were noted. The query may select fewer.
	Len() int
	// Sort brings the rows into the natural order of their names. It looks at nothing else, so it needs no loop.
	Sort()
	// After returns the place of the first row whose name comes after this one, in a sorted list.
	After(name string) int
	// Read adds to the page the rows from a place on that the query selects, until the page is full, no row is left, or
	// many were looked at. It returns the place from which to go on, and whether the page is done.
	Read(c Cluster, query *Query, at int, page *Page[V]) (next int, done bool)
}

// listing is a list with rows that are named and read by K.
type listing[K, V any] struct {
	rows []row[K]
	name func(K) string
	// reader returns a function that reads a row; false when it is no more, or the query or the caller's rights leave it
	// out.
	reader func(Cluster, *Query) func(K) (V, bool)
	sorted bool
}

func (l *listing[K, V]) note(of K) { l.rows = append(l.rows, row[K]{of: of}) }

func (l *listing[K, V]) Len() int { return len(l.rows) }

func (l *listing[K, V]) Sort() {
	if l.sorted {
		return
	}
	for i := range l.rows {
		l.rows[i].name = l.name(l.rows[i].of)
	}
	slices.SortStableFunc(l.rows, func(a, b row[K]) int { return words.CompareNatural(a.name, b.name) })
	l.sorted = true
}

func (l *listing[K, V]) After(name string) int {
	if name == "" {
		return 0
	}
	at, _ := slices.BinarySearchFunc(l.rows, name, func(r row[K], name string) int {
		if words.CompareNatural(r.name, name) <= 0 {
			return -1
		}
		return 1
	})
	return at
}

func (l *listing[K, V]) Read(c Cluster, query *Query, at int, page *Page[V]) (next int, done bool) {
	read, most := l.reader(c, query), query.most()
	for end := min(at+pieceRows, len(l.rows)); at < end; at++ {
		if l.sorted && l.rows[at].name == page.Next {
			continue // of rows of one name the first that is selected is shown
		}
		one, is := read(l.rows[at].of)
		switch {
		case !is:
			continue
		case len(page.Items) == most:
			return at, true
		}
		page.Items = append(page.Items, one)
		page.Next = l.rows[at].name
	}
	if at < len(l.rows) {
		return at, false
	}
	page.Next = ""
	return at, true
}

// PageOf notes the rows of a list and reads a page of it, all in one look.
func PageOf[V any](c Cluster, list func(Cluster, Query) Listing[V], query Query) (page Page[V]) {
	noted := list(c, query)
	noted.Sort()
	at, done := noted.After(query.After), false
	for !done {
		at, done = noted.Read(c, &query, at, &page)
	}
	return page
}
