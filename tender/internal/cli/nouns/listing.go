package nouns

import (
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

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
}

// column says how to show one value of an item.
type column[T any] struct {
	title string
	wide  bool // only with -o wide
	cell  func(T, time.Time) string
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
		l.Items = append(l.Items, Item{ID: id(one), Name: name(one), Message: one, cells: cells})
	}
	return l
}

// text makes a column that does not depend on the time.
func text[T any](title string, cell func(T) string) column[T] {
	return column[T]{title: title, cell: func(t T, _ time.Time) string { return cell(t) }}
}

// aged makes a column that depends on the time.
func aged[T any](title string, cell func(T, time.Time) string) column[T] {
	return column[T]{title: title, cell: cell}
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
