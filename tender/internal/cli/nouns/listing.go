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

// keyOf returns what the rows are sorted by if they are sorted by the column of this title.
func keyOf[T any](columns []column[T], one T, title string) Key {
	for _, c := range columns {
		switch {
		case c.title != title:
		case c.at != nil:
			return Key{at: c.at(one).AsTime().UnixNano()}
		default:
			return Key{text: c.cell(one, time.Time{})}
		}
	}
	return Key{}
}

// listingOf makes a listing of items with these columns.
func listingOf[T proto.Message](
	message proto.Message, items []T, more bool, columns []column[T], id, name func(T) string,
) *Listing {
	l := &Listing{Message: message, More: more}
	l.header = func(wide bool) []string {
		var titles []string
		for _, c := range columns {
			if wide || !c.wide {
				titles = append(titles, c.title)
			}
		}
		return titles
	}
	for _, one := range items {
		cells := func(wide bool, now time.Time) []string {
			var row []string
			for _, c := range columns {
				if wide || !c.wide {
					row = append(row, c.cell(one, now))
				}
			}
			return row
		}
		l.Items = append(l.Items, Item{ID: id(one), Name: name(one), Message: one, cells: cells, key: func(title string) Key { return keyOf(columns, one, title) }})
	}
	return l
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
