package nouns

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// This file shows what changes of kinds whose things no watch shows. Of executors and operations a watch has the events,
// so what is on the agents that these name is listed again. Jobs come from their managers.

const (
	// listEvery is the least time between two lists, so that what changes meanwhile is listed once.
	listEvery = time.Second
	// agentsMax is of how many agents each is listed by itself; when more were heard of, all is listed.
	agentsMax = 16
)

// listAgain shows the kind now, and whenever a watch tells that something has happened to it, what is on that agent.
func (w *Watcher) listAgain(ctx context.Context, c *client.Client) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	heard := make(chan *apiv1.WatchResponse, 1)
	go func() {
		request := &apiv1.WatchRequest{
			Kinds: []string{w.Kind.singular()}, EventsOnly: true, AgentId: w.Query.Agent, FrameworkId: w.Query.Framework, Role: w.Query.Role,
		}
		for news, err := range c.Watch(ctx, request) {
			if err != nil {
				end(err)
				return
			}
			select {
			case waiting := <-heard: // not listed yet
				news = &apiv1.WatchResponse{Items: append(waiting.GetItems(), news.GetItems()...), Missed: waiting.GetMissed() + news.GetMissed()}
			default:
			}
			heard <- news
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case news := <-heard:
			if news.GetMissed() != "" {
				w.Say(news.GetMissed())
			}
			for _, agent := range w.agentsOf(news) {
				query := *w.Query
				query.All = true // an operation that was done at once is shown too
				query.Agent = cmp.Or(agent, query.Agent)
				list, err := w.Kind.list(ctx, c, &query)
				if err != nil {
					return err
				}
				if err := w.listed(agent, list, news.GetItems()); err != nil {
					return err
				}
			}
		}
		pause.For(ctx, listEvery)
	}
}

// agentsOf returns of which agents the things are to be listed again after this; "" is all of them.
func (w *Watcher) agentsOf(news *apiv1.WatchResponse) []string {
	agents := make(map[string]bool)
	for _, one := range news.GetItems() {
		agents[wire.EventAbout(one.GetEvent())["agent"]] = true
	}
	if w.known == nil || news.GetMissed() != "" || agents[""] || len(agents) > agentsMax {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(agents))
}

// Listed shows a whole list that replaces what was known. The events say when and what has happened to its things.
func (w *Watcher) Listed(list *Listing, events []*apiv1.Change) error {
	return w.listed("", list, events)
}

// listed shows a list that replaces what was known of an agent; "": of all.
func (w *Watcher) listed(agent string, list *Listing, events []*apiv1.Change) error {
	left := maps.Clone(w.known)
	if agent != "" {
		maps.DeleteFunc(left, func(_ string, one shown) bool { return agentOf(one.list.Items[0]) != agent })
	}
	var items []Item
	for _, item := range itemsOf(list) {
		items = append(items, item)
		delete(left, placeOf(item))
	}
	if err := w.Saw(items, events); err != nil {
		return err
	}
	return w.Gone(slices.Sorted(maps.Keys(left)), events)
}

// Saw shows those of the things that have changed or are new, as a table that begins with the first ones.
func (w *Watcher) Saw(items []Item, events []*apiv1.Change) error {
	if w.known == nil {
		w.known = make(map[string]shown)
	}
	var rows [][]string
	for _, item := range items {
		one := &Listing{Items: []Item{item}}
		now := shown{list: one, still: cellsOf(one, true, time.Time{})}
		place := placeOf(item)
		if slices.EqualFunc(w.known[place].still, now.still, slices.Equal[[]string]) {
			continue
		}
		w.known[place] = now
		if w.asLines() {
			if err := w.itemLine(item); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, w.rows(&apiv1.Change{Event: eventOf(events, place)}, one)...)
	}
	return w.add(rows)
}

// Gone shows that things are no more.
func (w *Watcher) Gone(places []string, events []*apiv1.Change) error {
	var rows [][]string
	for _, place := range places {
		one, had := w.known[place]
		if delete(w.known, place); !had {
			continue
		}
		gone := &apiv1.Change{Removed: w.Kind.singular() + "/" + one.list.Items[0].ID, Event: eventOf(events, place)}
		if w.asLines() {
			if err := w.line(gone, one.list); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, w.rows(gone, one.list)...)
	}
	return w.add(rows)
}

// add adds rows to the table, which begins with the first ones.
func (w *Watcher) add(rows [][]string) error {
	if w.asLines() {
		return nil
	}
	if !w.whole {
		w.whole = true
		return w.table.Begin(w.Out, append([]string{"AT", "WHAT"}, w.Kind.Header(w.wide())...), rows)
	}
	for _, row := range rows {
		if err := w.table.Row(w.Out, row); err != nil {
			return err
		}
	}
	return nil
}

// itemLine writes a thing for programs, as lists have it.
func (w *Watcher) itemLine(item Item) error {
	if w.Format == show.AsJSON {
		return show.JSONLine(w.Out, item.Message)
	}
	_, err := fmt.Fprintln(w.Out, item.ID)
	return err
}

// placeOf returns the name by which a thing is known: executors of one name are on many agents.
func placeOf(item Item) string {
	if agent := agentOf(item); agent != "" {
		return item.ID + " " + agent
	}
	return item.ID
}

// agentOf returns the agent that the thing is on; "": it is on none.
func agentOf(item Item) string {
	if view, is := item.Message.(interface{ GetAgentId() string }); is {
		return view.GetAgentId()
	}
	return ""
}

// eventOf returns the latest of the events that is of the thing; nil if there is none.
func eventOf(events []*apiv1.Change, place string) *apiv1.Event {
	for _, one := range slices.Backward(events) {
		event := one.GetEvent()
		about, name := wire.EventAbout(event), event.GetName()
		if event.GetKind() == "operation" {
			name = about["framework"] + "/" + name
		}
		if name+" "+about["agent"] == place {
			return event
		}
	}
	return nil
}
