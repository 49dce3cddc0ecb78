package top

import (
	"slices"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// row is one thing in a table. A change of the thing makes another row.
type row struct {
	item  nouns.Item
	key   nouns.Key
	stale bool // the thing has another row now, or none
}

// table holds all things of a kind, in order. A frame costs what has changed and what is visible, however many things
// there are: only visible rows are made into text, and changed ones are merged into the order.
type table struct {
	kind   nouns.Kind
	rows   map[string]*row // all things, by name
	order  []*row          // those that the filter lets through, in order
	fresh  []*row          // rows that are not in the order yet
	staled bool            // the order has stale rows

	column string // the title of the column by which it is sorted
	down   bool   // from large to small
	filter string

	cursor int    // the place in the order of the row that is chosen
	chosen string // its name; "": the first one, whichever that is
	first  int    // the place of the first row on the screen
	skip   int    // how many columns are scrolled away
	wide   bool
	widths show.Growing
}

func newTable(kind nouns.Kind) *table {
	return &table{kind: kind, rows: make(map[string]*row), column: kind.Header(false)[0]}
}

// clear forgets all things.
func (t *table) clear() {
	clear(t.rows)
	t.order, t.fresh, t.staled = nil, nil, false
}

// take notes how a thing is now; a view of nil says that it is no more.
func (t *table) take(name string, view proto.Message) {
	if before := t.rows[name]; before != nil {
		before.stale, t.staled = true, true
		delete(t.rows, name)
	}
	if view != nil {
		t.put(name, t.kind.Item(view))
	}
}

func (t *table) put(name string, item nouns.Item) {
	r := &row{item: item, key: item.Key(t.column)}
	t.rows[name] = r
	t.fresh = append(t.fresh, r)
}

// settle brings the order up to date.
func (t *table) settle() {
	stale := func(r *row) bool { return r.stale }
	if t.staled {
		t.order = slices.DeleteFunc(t.order, stale)
		t.staled = false
	}
	fresh := slices.DeleteFunc(t.fresh, func(r *row) bool { return r.stale || !t.fits(r.item) })
	slices.SortFunc(fresh, t.compare)
	t.order = merge(t.order, fresh, t.compare)
	t.fresh = t.fresh[:0]
	t.follow()
}

// merge returns the rows of two ordered lists in one, which takes few comparisons if the second list is short.
func merge(all, more []*row, compare func(a, b *row) int) []*row {
	if len(more) == 0 {
		return all
	}
	merged := make([]*row, 0, len(all)+len(more))
	for _, r := range more {
		before := sort.Search(len(all), func(i int) bool { return compare(all[i], r) > 0 })
		merged = append(append(merged, all[:before]...), r)
		all = all[before:]
	}
	return append(merged, all...)
}

// compare orders rows by the column, and equal ones by their names.
func (t *table) compare(a, b *row) int {
	order := a.key.Compare(b.key)
	if t.down {
		order = -order
	}
	if order != 0 {
		return order
	}
	return words.CompareNatural(a.item.ID, b.item.ID)
}

// fits reports whether the filter lets a thing through: one of its cells contains the text, in whatever case.
func (t *table) fits(item nouns.Item) bool {
	return t.filter == "" || slices.ContainsFunc(item.Cells(t.wide, time.Time{}), func(cell string) bool {
		return strings.Contains(strings.ToLower(cell), t.filter)
	})
}

// again puts all rows into the order anew, because they are sorted or filtered in another way.
func (t *table) again() {
	t.order, t.fresh, t.staled, t.widths = nil, t.fresh[:0], false, show.Growing{}
	for _, r := range t.rows { // order: irrelevant because settle sorts them
		r.key = r.item.Key(t.column)
		t.fresh = append(t.fresh, r)
	}
	t.settle()
}

// sortBy sorts by another column: step columns further, or the same one in the other direction for step 0.
func (t *table) sortBy(step int) {
	header := t.kind.Header(t.wide)
	at := max(0, slices.Index(header, t.column))
	t.column = header[(at+step+len(header))%len(header)]
	t.down = step == 0 && !t.down
	t.again()
}

// follow keeps the chosen thing chosen, wherever it is in the order now; another one takes the place of one that is gone.
func (t *table) follow() {
	if t.chosen == "" || t.cursor < len(t.order) && t.order[t.cursor] == t.rows[t.chosen] {
		t.move(0)
		return
	}
	if at := slices.Index(t.order, t.rows[t.chosen]); at >= 0 {
		t.cursor = at
		return
	}
	t.move(0)
	t.choose()
}

// choose keeps the row at the cursor chosen from now on.
func (t *table) choose() {
	if t.chosen = ""; t.cursor < len(t.order) {
		t.chosen = t.order[t.cursor].item.ID
	}
}

// move moves the cursor so many rows down.
func (t *table) move(by int) { t.cursor = max(0, min(t.cursor+by, len(t.order)-1)) }

// visible returns the rows of a screen that is so many rows high, with the chosen one among them.
func (t *table) visible(height int) []*row {
	height = max(1, height)
	t.first = max(0, min(t.first, len(t.order)-height))
	t.first = max(min(t.first, t.cursor), t.cursor-height+1)
	return t.order[t.first:min(len(t.order), t.first+height)]
}

// lines returns the header and rows as lines of text, as 'tender get' shows them.
func (t *table) lines(rows []*row, now time.Time) []string {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = t.unskipped(r.item.Cells(t.wide, now))
	}
	var text strings.Builder
	_ = t.widths.Begin(&text, t.unskipped(t.kind.Header(t.wide)), cells) // a builder takes everything
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// unskipped leaves out the columns that are scrolled away; the first one always stays.
func (t *table) unskipped(cells []string) []string {
	t.skip = max(0, min(t.skip, len(cells)-2))
	return slices.Concat(cells[:1], cells[1+t.skip:])
}
