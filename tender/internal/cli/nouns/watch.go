package nouns

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// Watcher shows a kind as it is, and then a row for each change, until its context ends.
type Watcher struct {
	Kind   Kind
	Query  *Query
	Out    io.Writer
	Format string // table, wide, json or name
	Now    func() time.Time
	Say    func(sentence string) // what the watch could not learn

	table show.Growing
	known map[string]shown // the rows that are shown now, by name
	whole bool             // the state has been shown
}

// shown is a thing as it was shown last.
type shown struct {
	list  *Listing
	still [][]string // its rows at one fixed time, by which a row that only got older is known
}

// Watch shows the kind until ctx ends.
func (w *Watcher) Watch(ctx context.Context, c *client.Client) error {
	if w.Kind.watched == "" {
		return w.listAgain(ctx, c)
	}
	w.known = make(map[string]shown)
	request := &apiv1.WatchRequest{Kinds: []string{w.Kind.watched}, AgentId: w.Query.Agent, FrameworkId: w.Query.Framework, Role: w.Query.Role}
	var state []*apiv1.Change // until it is complete
	for news, err := range c.Watch(ctx, request) {
		if err != nil {
			return err
		}
		if news.GetMissed() != "" {
			w.Say(news.GetMissed())
		}
		if w.whole {
			err = w.changes(news.GetItems())
		} else if state = append(state, news.GetItems()...); news.GetComplete() {
			slices.SortFunc(state, func(a, b *apiv1.Change) int { // as lists are
				_, name := wire.ChangeName(a)
				_, other := wire.ChangeName(b)
				return words.CompareNatural(name, other)
			})
			err = w.changes(state)
			w.whole, state = true, nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changes shows what there is at first, and then what has changed.
func (w *Watcher) changes(items []*apiv1.Change) error {
	var rows [][]string
	for _, item := range items {
		list, tell := w.take(item)
		switch {
		case !tell:
		case w.asLines():
			if err := w.line(item, list); err != nil {
				return err
			}
		default:
			rows = append(rows, w.rows(item, list)...)
		}
	}
	return w.add(rows)
}

func (w *Watcher) asLines() bool { return w.Format == show.AsJSON || w.Format == show.AsName }

func (w *Watcher) wide() bool { return w.Format == show.AsWide }

// line writes a change for programs.
func (w *Watcher) line(item *apiv1.Change, list *Listing) error {
	if w.Format == show.AsJSON {
		return show.JSONLine(w.Out, item)
	}
	for _, one := range itemsOf(list) {
		if _, err := io.WriteString(w.Out, one.ID+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func itemsOf(list *Listing) []Item {
	if list == nil {
		return nil
	}
	return list.Items
}

// take notes a change. It returns the thing as it is, or was last, and whether the change is to be shown.
func (w *Watcher) take(item *apiv1.Change) (list *Listing, tell bool) {
	kind, name := wire.ChangeName(item)
	if kind == "" {
		name = item.GetEvent().GetName()
	}
	before, had := w.known[name]
	list = before.list
	switch {
	case item.GetRemoved() != "":
		delete(w.known, name)
		return list, had
	case kind == "":
		return list, had
	}
	list = w.Kind.view(wire.ChangeView(item))
	fits := w.fits(name, item, list)
	if !fits && !had {
		return list, false
	}
	now := shown{list: list, still: cellsOf(list, true, time.Time{})}
	if w.known[name] = now; !fits {
		delete(w.known, name) // it is shown once more, as it is now
	}
	changed := !slices.EqualFunc(before.still, now.still, slices.Equal[[]string])
	return list, changed || item.GetEvent() != nil
}

// fits reports whether the query selects the thing.
func (w *Watcher) fits(name string, item *apiv1.Change, list *Listing) bool {
	if len(w.Query.States) > 0 && !slices.ContainsFunc(w.Query.States, func(state string) bool { return strings.EqualFold(state, stateOf(item)) }) {
		return false
	}
	prefix := w.Query.Prefix
	return prefix == "" || strings.HasPrefix(name, prefix) ||
		slices.ContainsFunc(itemsOf(list), func(one Item) bool { return strings.HasPrefix(one.ID, prefix) || one.Name == prefix }) ||
		item.GetTask() != nil && strings.HasPrefix(item.GetTask().GetId(), prefix)
}

// stateOf returns the state of the thing in a change.
func stateOf(item *apiv1.Change) string {
	return cmp.Or(item.GetTask().GetState(), item.GetAgent().GetState(), item.GetFramework().GetState(), item.GetMaster().GetState())
}

// cellsOf returns the rows of a list as they look at a time.
func cellsOf(list *Listing, wide bool, now time.Time) (rows [][]string) {
	for _, one := range itemsOf(list) {
		rows = append(rows, one.cells(wide, now))
	}
	return rows
}

// rows returns the rows of a table for a change: when, what, and the thing.
func (w *Watcher) rows(item *apiv1.Change, list *Listing) (rows [][]string) {
	now := w.Now()
	at, what := now, item.GetEvent().GetWhat()
	if event := item.GetEvent(); event != nil {
		at = event.GetAt().AsTime()
	}
	if item.GetRemoved() != "" && what == "" {
		what = "gone"
	}
	for _, cells := range cellsOf(list, w.wide(), now) {
		rows = append(rows, append([]string{at.In(now.Location()).Format(time.TimeOnly), what}, cells...))
	}
	return rows
}
