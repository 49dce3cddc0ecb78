package nouns

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestListsThatFollowEachOther: who watches executors or operations is shown what has changed between two lists, and what
// has happened to it where an event says so.
func TestListsThatFollowEachOther(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	event := func(kind, name, what string) *apiv1.Change {
		return &apiv1.Change{Event: &apiv1.Event{Kind: kind, Name: name, What: what, About: []string{"agent/a1", "framework/f1"}}}
	}
	executor := func(agent string, tasks int32) *apiv1.ExecutorView {
		return &apiv1.ExecutorView{Id: "x", FrameworkId: "f1", AgentId: agent, Tasks: tasks}
	}
	executors := func(all ...*apiv1.ExecutorView) *Listing {
		return executorLooks.listing(nil, all, false)
	}
	var out strings.Builder
	w := Watcher{Kind: Executors, Out: &out, Format: "table", Now: func() time.Time { return now }}
	if of := w.agentsOf(&apiv1.WatchResponse{Items: []*apiv1.Change{event("executor", "f1/x", "started")}}); !slices.Equal(of, []string{""}) {
		t.Errorf("at first the lists of %q are read", of)
	}
	for i, one := range []struct {
		agent  string
		list   *Listing
		events []*apiv1.Change
		want   string
	}{
		{"", executors(executor("a1", 1), executor("a2", 2)), nil, "- f1/x a1 running 1, - f1/x a2 running 2"},
		{"", executors(executor("a1", 1), executor("a2", 3)), nil, "- f1/x a2 running 3"},
		{"a1", executors(executor("a1", 4)), nil, "- f1/x a1 running 4"},
		{"a1", executors(), []*apiv1.Change{event("executor", "f1/x", "started"), event("executor", "f1/x", "ended")}, "ended f1/x a1 running 4"},
		{"", executors(), nil, "gone f1/x a2 running 3"},
	} {
		out.Reset()
		if err := w.listed(one.agent, one.list, one.events); err != nil {
			t.Fatal(err)
		}
		var rows []string
		for line := range strings.Lines(out.String()) {
			if cells := strings.Fields(line); cells[0] != "AT" {
				rows = append(rows, strings.Join(cells[1:6], " "))
			}
		}
		if got := strings.Join(rows, ", "); got != one.want {
			t.Errorf("list %d: %s, want %s", i, got, one.want)
		}
	}
	news := &apiv1.WatchResponse{}
	for i, want := range []int{1, 1, 2} { // of two agents each is listed, and of too many all
		news.Items = append(news.Items, event("executor", "f1/x", "started"))
		news.Items[i].Event.About[0] = "agent/a" + strconv.Itoa(i/2)
		if of := w.agentsOf(news); len(of) != want || of[0] != "a0" {
			t.Errorf("%d events: the lists of %q are read", i+1, of)
		}
	}
	for i := range agentsMax {
		news.Items = append(news.Items, event("executor", "f1/x", "started"))
		news.Items[3+i].Event.About[0] = "agent/b" + strconv.Itoa(i)
	}
	if of := w.agentsOf(news); !slices.Equal(of, []string{""}) {
		t.Errorf("of many agents the lists of %q are read", of)
	}
	out.Reset()
	w = Watcher{Kind: Operations, Out: &out, Format: "json", Now: func() time.Time { return now }}
	done := &apiv1.OperationView{Id: "r1", FrameworkId: "f1", AgentId: "a1", State: "done"}
	if err := w.Listed(operationLooks.listing(nil, []*apiv1.OperationView{done}, false), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Listed(operationLooks.listing(nil, nil, false), nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"done"`) || !strings.Contains(got, `"removed":"operation/f1/r1"`) {
		t.Errorf("as JSON: %s", got)
	}
}
