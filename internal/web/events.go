package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

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
