package past

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/history"
)

const (
	// lifeMax is how many events of one thing a story tells.
	lifeMax = 200
	// offersMax is how many offers before the launch of a task its story tells.
	offersMax = 20
	// before is how long before the launch of a task its story begins.
	before = 10 * time.Minute
)

// Story is how something has come to be as it was at a moment.
type Story struct {
	*Answer
	// Of is the thing, KIND/NAME, and At the moment.
	Of string
	At time.Time
}

// Tell reads the story of a thing, KIND/NAME, up to a moment: of a task its whole life, with the offers that its
// framework had before it, of all others what came last before the moment.
func Tell(ctx context.Context, c *client.Client, of string, at time.Time) (*Story, error) {
	kind, name, _ := strings.Cut(of, "/")
	query := history.Query{Of: of, Limit: lifeMax, Until: at}
	if kind == string(change.Task) {
		query.Until = time.Time{}
	}
	answer, err := Read(ctx, c, query)
	if err != nil {
		return nil, err
	}
	story := &Story{Answer: answer, Of: of, At: at}
	first := slices.IndexFunc(answer.Events, func(e *apiv1.Event) bool { return e.GetKind() == kind })
	if framework, _, whole := strings.Cut(name, "/"); kind == string(change.Task) && whole && first >= 0 {
		launched := answer.Events[first].GetAt().AsTime()
		offers, err := Read(ctx, c, history.Query{
			Of: string(change.Framework) + "/" + framework, Kinds: []string{string(change.Offer), string(change.Framework)},
			Since: launched.Add(-before), Until: launched.Add(time.Millisecond), Limit: offersMax,
		})
		if err != nil {
			return nil, err
		}
		story.Events = join([]*apiv1.ListEventsResponse{{Items: answer.Events}, {Items: offers.Events}}, 0).Events
	}
	return story, nil
}

// Head says how the thing stood at the moment.
func (s *Story) Head() string {
	kind, name, _ := strings.Cut(s.Of, "/")
	at := s.At.UTC().Format(time.RFC3339)
	var last *apiv1.Event
	for _, e := range s.Events {
		if e.GetAt().AsTime().After(s.At) {
			break
		}
		if e.GetKind() == kind && (e.GetName() == name || strings.HasSuffix(e.GetName(), "/"+name)) {
			last = e
		}
	}
	if last == nil {
		if len(s.Events) == 0 {
			return fmt.Sprintf("%s: nothing is known of it before %s", s.Of, at)
		}
		if kind == string(change.Task) {
			return fmt.Sprintf("%s at %s: nothing had happened to it yet", s.Of, at)
		}
		return fmt.Sprintf("%s at %s:", s.Of, at)
	}
	text := fmt.Sprintf("%s at %s: %s", s.Of, at, last.GetWhat())
	if i := slices.IndexFunc(last.GetAbout(), func(thing string) bool { return strings.HasPrefix(thing, "agent/") }); i >= 0 && kind == string(change.Task) {
		text += " on " + last.GetAbout()[i]
	}
	text += " since " + last.GetAt().AsTime().Format(time.RFC3339)
	if last.GetWhy() != "" {
		text += ": " + last.GetWhy()
	}
	return text
}

// Lines tells the story; what came after the moment stands behind a line that says so.
func (s *Story) Lines() (lines []string) {
	after := false
	for _, e := range s.Events {
		if !after && e.GetAt().AsTime().After(s.At) {
			after = true
			lines = append(lines, "afterwards:")
		}
		lines = append(lines, "  "+Line(e, false))
	}
	return lines
}
