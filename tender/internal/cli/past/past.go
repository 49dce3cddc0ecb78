// Package past reads what has happened from the histories of all masters, and puts it into lines for people. It joins
// what they know, because each has its own disk: a master that was away lacks what another one has. It changes nothing.
package past

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/history"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// Answer is what masters know of the past.
type Answer struct {
	Events []*apiv1.Event // the newest last
	More   bool           // there are older ones that the limit has cut off
	// Gaps says what every master that has answered may lack; none if one of them lacks nothing.
	Gaps   []string
	Silent []client.Silent // the masters that have not answered
}

// Read asks all masters for the newest events that a query selects; a limit of 0 means all. Who asks sees what the
// masters let him see.
func Read(ctx context.Context, c *client.Client, q history.Query) (*Answer, error) {
	pages, silent, err := client.AskEvery(ctx, c, func(ctx context.Context, master grpc.ClientConnInterface) (*apiv1.ListEventsResponse, error) {
		return readFrom(ctx, apiv1.NewWatchServiceClient(master), q)
	})
	if err != nil {
		return nil, err
	}
	answer := join(pages, q.Limit)
	answer.Silent = silent
	return answer, nil
}

// readFrom reads all pages of one master into one.
func readFrom(ctx context.Context, master apiv1.WatchServiceClient, q history.Query) (*apiv1.ListEventsResponse, error) {
	all := &apiv1.ListEventsResponse{}
	list := func(ctx context.Context, r *apiv1.ListEventsRequest, options ...grpc.CallOption) (*apiv1.ListEventsResponse, error) {
		page, err := master.ListEvents(ctx, r, options...)
		all.MasterId, all.NextPageToken, all.Gaps = page.GetMasterId(), page.GetNextPageToken(), append(all.Gaps, page.GetGaps()...)
		return page, err
	}
	items, _, err := client.All(ctx, list, q.Limit, &apiv1.ListEventsRequest{
		Since: wire.TimeToProto(q.Since), Until: wire.TimeToProto(q.Until), Of: q.Of, Kinds: q.Kinds, By: q.By, NotableOnly: q.NotableOnly,
	})
	all.Items = items
	return all, err
}

// join puts the answers of masters together. Each of them has the newest events first.
func join(pages []*apiv1.ListEventsResponse, limit int) *Answer {
	all := &Answer{}
	whole := false
	for _, page := range pages {
		all.Events = append(all.Events, page.GetItems()...)
		all.More = all.More || page.GetNextPageToken() != ""
		whole = whole || len(page.GetGaps()) == 0
		for _, gap := range page.GetGaps() {
			all.Gaps = append(all.Gaps, page.GetMasterId()+": "+gap)
		}
	}
	if whole {
		all.Gaps = nil
	}
	slices.SortStableFunc(all.Events, func(a, b *apiv1.Event) int { return Cursor(a).Compare(Cursor(b)) })
	all.Events = slices.CompactFunc(all.Events, func(a, b *apiv1.Event) bool { return Cursor(a) == Cursor(b) })
	var ends wire.Ends
	for _, e := range all.Events {
		ends.Settle(e) // what one master told last, and only its own history has
	}
	if limit > 0 && len(all.Events) > limit {
		all.Events, all.More = all.Events[len(all.Events)-limit:], true
	}
	return all
}

// Cursor returns the place of an event.
func Cursor(e *apiv1.Event) wire.Cursor { return wire.CursorOf(e.GetCursor()) }

// Newest returns the place of the newest event that a master knows.
func Newest(ctx context.Context, c *client.Client) (wire.Cursor, error) {
	newest, err := Read(ctx, c, history.Query{Limit: 1})
	if err != nil || len(newest.Events) == 0 {
		return wire.Cursor{}, err
	}
	return Cursor(newest.Events[0]), nil
}

// Follow calls each with every event behind a cursor that a query selects, until the context ends. missed says what could
// not be told.
func Follow(ctx context.Context, c *client.Client, q history.Query, after wire.Cursor, each func(*apiv1.Event) error, missed func(string)) error {
	request := &apiv1.WatchRequest{EventsOnly: true, Kinds: q.Kinds}
	if !after.IsZero() {
		request.After = after.Proto()
	}
	for news, err := range c.Watch(ctx, request) {
		if err != nil {
			return err
		}
		if news.GetMissed() != "" {
			missed(news.GetMissed())
		}
		for _, item := range news.GetItems() {
			if e := item.GetEvent(); e != nil && q.Selects(e) {
				if err := each(e); err != nil {
					return err
				}
			}
		}
	}
	return errors.New("the watch has ended")
}

// Line is an event in one line.
func Line(e *apiv1.Event, wide bool) string {
	own := e.GetKind() + "/" + e.GetName()
	line := fmt.Sprintf("%s  %-12s %s", e.GetAt().AsTime().Format(time.RFC3339), e.GetWhat(), own)
	for _, thing := range e.GetAbout() {
		switch {
		case thing == own:
		case wide || e.GetKind() == string(change.Offer):
			line += " " + thing
		case e.GetWhat() == string(change.Launched) && strings.HasPrefix(thing, "agent/"):
			line += " on " + thing
		}
	}
	if e.GetWhy() != "" {
		line += ": " + e.GetWhy()
	}
	if wide {
		line += fmt.Sprintf(" [%s, change %d of term %d]", e.GetBy(), e.GetCursor().GetNumber(), e.GetCursor().GetTerm().GetNumber())
	} else if e.GetBy() != "" && !strings.HasPrefix(e.GetBy(), "leader ") && !slices.Contains(e.GetAbout(), strings.Replace(e.GetBy(), " ", "/", 1)) {
		line += " (" + e.GetBy() + ")"
	}
	return show.Clean(line)
}

// tailShown is how many events stand below a description.
const tailShown = 10

// Tail writes the latest events of a thing, KIND/NAME, below its description.
func Tail(ctx context.Context, c *client.Client, w io.Writer, of string) error {
	// Routine is what a task does; of all others it would hide what matters.
	answer, err := Read(ctx, c, history.Query{Of: of, NotableOnly: !strings.HasPrefix(of, "task/"), Limit: tailShown})
	if api.Is(err, api.Unsupported) {
		return nil // no master keeps a history
	}
	if err != nil {
		_, err = fmt.Fprintf(w, "\nLatest events: unknown, because %s\n", err)
		return err
	}
	if len(answer.Events) == 0 {
		return nil
	}
	lines := "\nLatest events"
	if answer.More {
		lines += " ('tender events --of " + of + "' shows more)"
	}
	lines += ":\n"
	for _, e := range answer.Events {
		lines += "  " + Line(e, false) + "\n"
	}
	_, err = io.WriteString(w, lines)
	return err
}

// Missing returns sentences about what an answer may lack.
func (a *Answer) Missing() (sentences []string) {
	for _, silent := range a.Silent {
		sentences = append(sentences, fmt.Sprintf("no answer from %s (%s); what only it knows is missing", silent.ID, silent.Why))
	}
	if more := len(a.Gaps) - gapsShown; more > 0 {
		return append(append(sentences, a.Gaps[:gapsShown]...), "and "+words.Count(more, "more gap"))
	}
	return append(sentences, a.Gaps...)
}

// gapsShown is how many gaps are said.
const gapsShown = 10
