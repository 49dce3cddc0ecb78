package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// happened lists what has happened, the newest first, as the master that answers keeps it.
func (s *Server) happened(r *http.Request) (page, error) {
	query := r.URL.Query()
	list, err := apiv1.NewWatchServiceClient(s.config.Cluster).ListEvents(r.Context(), &apiv1.ListEventsRequest{
		Limit: windowRows, PageToken: query.Get("page"), Of: query.Get("q"), NotableOnly: query.Get("all") == "", Until: untilOf(query),
	})
	if err != nil {
		return page{}, err
	}
	shown := eventsView(list.GetItems(), "Nothing has happened"+suchAs(query)+" that this master knows of.")
	shown.more = further(r, list.GetNextPageToken())
	all := link{"the usual life of tasks and offers too", "/history?all=1&q=" + url.QueryEscape(query.Get("q"))}
	command := "tender events" + flags(query, "q", "--of")
	if query.Get("all") != "" {
		command += " --all"
	}
	blocks := []block{{
		key: "list", title: "Events", note: "what somebody may look for later", wide: true, links: []link{all},
		body: listView(shown, filter{"/history", query.Get("q"), "Events of KIND/NAME, such as agent/agent-1"}),
	}}
	if gaps := list.GetGaps(); len(gaps) > 0 {
		blocks = append(blocks, block{key: "gaps", title: "What this master does not have", body: sentences(gaps), wide: true})
	}
	return page{title: "Events", nav: "/history", command: command, blocks: blocks}, nil
}

const (
	// failedFor is how long a task that has failed stands in the first view, and failedLooks is how many events of the
	// lives of tasks are looked through for such.
	failedFor   = 24 * time.Hour
	failedLooks = 200
)

// failing reports whether an event is one of a task that went wrong.
func failing(event *apiv1.Event) bool {
	if event.GetKind() != "task" || !event.GetNotable() {
		return false
	}
	state, _ := api.ParseTaskState(event.GetWhat())
	return state.Terminal() && state != api.TaskFinished && state != api.TaskKilled || state == api.TaskUnreachable
}

// failures is what is known of the tasks that have failed lately.
type failures struct {
	events []*apiv1.Event
	err    error
	asked  time.Time
	missed int // as the mirror had counted by then
}

// failedLately returns the last events of tasks that went wrong before a moment; zero: now. The history is asked once, and
// again when the watch has missed something and from time to time; what came since is told by the watch.
func (s *Server) failedLately(ctx context.Context, then time.Time) ([]*apiv1.Event, error) {
	now, m := s.config.Clock(), new(mirror)
	if shared, is := ctx.Value(mirrorKey{}).(*mirror); is && then.IsZero() {
		m = shared
	}
	m.mu.Lock()
	known, missed, all := m.failed, m.missed, slices.Clone(m.past.marks)
	m.mu.Unlock()
	if then.IsZero() {
		then = now
	}
	if age := now.Sub(known.asked); known.asked.IsZero() || known.missed != missed || age > hoursKept || known.err != nil && age > lookEvery {
		events, err := s.failedBefore(ctx, then)
		known = failures{events, err, now, missed}
		m.mu.Lock()
		m.failed = known
		m.mu.Unlock()
	}
	all = slices.DeleteFunc(append(all, known.events...), func(one *apiv1.Event) bool { return !failing(one) || timeOf(one.GetAt()).Before(then.Add(-failedFor)) })
	slices.SortStableFunc(all, func(a, b *apiv1.Event) int {
		return cmp.Or(timeOf(b.GetAt()).Compare(timeOf(a.GetAt())), cmp.Compare(a.GetName(), b.GetName()))
	})
	all = slices.CompactFunc(all, func(a, b *apiv1.Event) bool { return proto.Equal(a, b) })
	return all[:min(len(all), shortMax)], known.err
}

// failedBefore asks the history what the last events of tasks that went wrong were.
func (s *Server) failedBefore(ctx context.Context, then time.Time) ([]*apiv1.Event, error) {
	asking, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	events, _, err := s.until(asking, then, failedLooks, &apiv1.ListEventsRequest{
		Limit: failedLooks, Kinds: []string{"task"}, NotableOnly: true, Since: timestamppb.New(then.Add(-failedFor)),
	})
	return events, err
}

// untilOf returns the moment of the past that an address names, for a call; nil: it names none.
func untilOf(query url.Values) *timestamppb.Timestamp {
	if when, asked := momentOf(query); asked {
		return timestamppb.New(when)
	}
	return nil
}

// eventsView says when what happened, who has caused it, and why.
func eventsView(events []*apiv1.Event, empty string) table {
	shown := table{columns: []string{"When", "What", "Happened", "By", "Why"}, empty: empty}
	for _, event := range events {
		shown.rows = append(shown.rows, row{fmt.Sprint(event.GetCursor().GetTerm().GetNumber(), "/", event.GetCursor().GetNumber()), []cell{
			since(timeOf(event.GetAt())), to(event.GetKind()+" "+event.GetName(), pathOf(event.GetKind(), event.GetName())), text(event.GetWhat()), text(event.GetBy()),
			text(event.GetWhy()),
		}})
	}
	return shown
}

// pathOf is the address of the view of a thing; "": it has none.
func pathOf(kind, name string) string {
	switch kind {
	case "agent", "maintenance", "reservation":
		return agentPath(name)
	case "framework":
		return frameworkPath(name)
	case "task":
		framework, task, _ := strings.Cut(name, "/")
		return "/tasks/" + url.PathEscape(framework) + "/" + url.PathEscape(task)
	case "job":
		return "/jobs/" + url.PathEscape(name)
	case "role":
		return "/roles"
	case "master", "election":
		return "/masters"
	default:
		return ""
	}
}
