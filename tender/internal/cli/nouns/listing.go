package nouns

import (
	"cmp"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// Listing is a list that was fetched and can be shown in every format.
type Listing struct {
	Message proto.Message // the response with the items of all pages
	Items   []Item
	header  func(wide bool) []string
	More    bool // the limit has cut the list
}

// Item is one row.
type Item struct {
	ID      string
	Name    string // for people; may be ""
	Message proto.Message
	cells   func(wide bool, now time.Time) []string
	key     func(title string) Key
}

// Cells returns the cells of the row.
func (i Item) Cells(wide bool, now time.Time) []string { return i.cells(wide, now) }

// Key returns by what the row is sorted in a table that is sorted by the column of this title.
func (i Item) Key(title string) Key { return i.key(title) }

// Key is what rows are sorted by. It does not change with the time.
type Key struct {
	at   int64 // of a column that depends on the time: its moment, in nanoseconds
	text string
}

// Compare orders keys as people do: numbers by their value, and what is young before what is old.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(other.at, k.at), words.CompareNatural(k.text, other.text))
}

// column says how to show one value of an item.
type column[T any] struct {
	title string
	wide  bool // only with -o wide
	cell  func(T, time.Time) string
	at    func(T) *timestamppb.Timestamp // the moment on which the cell depends; nil: it depends on none
}

// looks say how the things of a kind are listed: their IDs and their names for people, and the columns.
type looks[T proto.Message] struct {
	id      func(T) string
	name    func(T) string // nil: they have no names beside their IDs
	columns []column[T]
}

// keyOf returns what the rows are sorted by if they are sorted by the column of this title.
func (l looks[T]) keyOf(item T, title string) Key {
	for _, c := range l.columns {
		switch {
		case c.title != title:
		case c.at != nil:
			return Key{at: c.at(item).AsTime().UnixNano()}
		default:
			return Key{text: c.cell(item, time.Time{})}
		}
	}
	return Key{}
}

// write writes the columns that are shown.
func (l looks[T]) write(wide bool, text func(column[T]) string) (row []string) {
	for _, c := range l.columns {
		if wide || !c.wide {
			row = append(row, text(c))
		}
	}
	return row
}

// listing makes a listing of items.
func (l looks[T]) listing(message proto.Message, items []T, more bool) *Listing {
	listing := &Listing{Message: message, More: more}
	listing.header = func(wide bool) []string {
		return l.write(wide, func(c column[T]) string { return c.title })
	}
	for _, item := range items {
		cells := func(wide bool, now time.Time) []string {
			return l.write(wide, func(c column[T]) string { return c.cell(item, now) })
		}
		row := Item{ID: l.id(item), Message: item, cells: cells, key: func(title string) Key { return l.keyOf(item, title) }}
		if l.name != nil {
			row.Name = l.name(item)
		}
		listing.Items = append(listing.Items, row)
	}
	return listing
}

// view lists the view of one thing, or none.
func (l looks[T]) view(view proto.Message) *Listing {
	var items []T
	if item, is := view.(T); is {
		items = append(items, item)
	}
	return l.listing(nil, items, false)
}

// text makes a column that does not depend on the time.
func text[T any](title string, cell func(T) string) column[T] {
	return column[T]{title: title, cell: func(t T, _ time.Time) string { return cell(t) }}
}

// aged makes a column that says how long ago a moment was.
func aged[T any](title string, at func(T) *timestamppb.Timestamp) column[T] {
	return column[T]{title: title, at: at, cell: func(t T, now time.Time) string { return show.Age(now, at(t)) }}
}

// wide makes a column that is shown only with -o wide.
func wide[T any](c column[T]) column[T] {
	c.wide = true
	return c
}

// Print writes a list in the format of -o: table, wide, json or name. An empty table is not written.
func (l *Listing) Print(w io.Writer, format string, now time.Time) error {
	switch format {
	case show.AsJSON:
		return show.JSON(w, l.Message)
	case show.AsName:
		var text strings.Builder
		for _, item := range l.Items {
			text.WriteString(item.ID + "\n")
		}
		_, err := io.WriteString(w, text.String())
		return err
	}
	if len(l.Items) == 0 {
		return nil
	}
	all := format == show.AsWide
	rows := make([][]string, len(l.Items))
	for i, item := range l.Items {
		rows[i] = item.cells(all, now)
	}
	return show.Table(w, l.header(all), rows)
}
