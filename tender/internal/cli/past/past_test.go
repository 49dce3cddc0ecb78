package past

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// event is number n of a term, n seconds after the beginning.
func event(term, n uint64, thing, what, why string, about ...string) *apiv1.Event {
	kind, name, _ := strings.Cut(thing, "/")
	return &apiv1.Event{
		Cursor: wire.Cursor{Term: api.Term{Number: term}, Number: n}.Proto(), At: timestamppb.New(began.Add(time.Duration(n) * time.Second)),
		Kind: kind, Name: name, What: what, Why: why, About: about, By: "leader m1",
	}
}

func page(master string, more bool, gaps []string, events ...*apiv1.Event) *apiv1.ListEventsResponse {
	slices.Reverse(events)
	p := &apiv1.ListEventsResponse{MasterId: master, Items: events, Gaps: gaps}
	if more {
		p.NextPageToken = "more"
	}
	return p
}

// TestAnswersAreJoined: each event once, in the order of the leaders; a gap counts only if no master lacks nothing.
func TestAnswersAreJoined(t *testing.T) {
	one, two, three := event(2, 1, "agent/a1", "admitted", ""), event(2, 2, "agent/a1", "running", ""), event(3, 1, "election/3", "won", "")
	ended, heard := event(2, 3, "task/f1/t1", "finished", ""), event(3, 2, "task/f1/t1", "finished", "")
	heard.Heard = true
	lacks := []string{"m2 leads; the last changes may be missing"}
	for _, c := range []struct {
		name  string
		pages []*apiv1.ListEventsResponse
		limit int
		want  []*apiv1.Event
		more  bool
		gaps  int
	}{
		{"what one lacks the other has", []*apiv1.ListEventsResponse{page("m1", false, nil, one, two), page("m2", false, lacks, one, three)}, 0,
			[]*apiv1.Event{one, two, three}, false, 0},
		{"both lack something", []*apiv1.ListEventsResponse{page("m1", false, lacks, one), page("m2", false, lacks, three)}, 0,
			[]*apiv1.Event{one, three}, false, 2},
		{"the newest", []*apiv1.ListEventsResponse{page("m1", false, nil, one, two), page("m2", false, nil, two, three)}, 2, []*apiv1.Event{two, three}, true, 0},
		{"one has more", []*apiv1.ListEventsResponse{page("m1", true, nil, three)}, 1, []*apiv1.Event{three}, true, 0},
		{"an end that only its leader has, which was killed, and that the next one has heard from a report",
			[]*apiv1.ListEventsResponse{page("m1", false, nil, ended), page("m2", false, nil, heard)}, 0, []*apiv1.Event{ended, heard}, false, 0},
	} {
		got := join(c.pages, c.limit)
		if !slices.Equal(got.Events, c.want) || got.More != c.more || len(got.Gaps) != c.gaps {
			t.Errorf("%s: %v, more %t, gaps %q", c.name, got.Events, got.More, got.Gaps)
		}
	}
	if ended.GetWhat() != "finished" || heard.GetWhat() != wire.ToldAgain {
		t.Errorf("the two ends are told as %s and %s", ended.GetWhat(), heard.GetWhat())
	}
}

// TestLines: who has caused it is said where nothing else says it, and what a name has in it moves no cursor.
func TestLines(t *testing.T) {
	failed := event(2, 3, "task/f1/web.0", "failed", "exited with 3", "agent/a1", "framework/f1", "task/f1/web.0")
	failed.By = "agent a1"
	launched := event(2, 3, "task/f1/web.0", "launched", "", "agent/a1", "framework/f1", "task/f1/web.0")
	set := event(2, 4, "role/eng\x1b[2J", "set", "", "role/eng\x1b[2J")
	set.By = "person ann"
	offer := event(2, 5, "offer/offer-2-1", "declined", "no room for web", "agent/a1", "framework/f1", "role/eng")
	for wanted, line := range map[string]string{
		"2026-01-02T03:04:08Z  launched     task/f1/web.0 on agent/a1":                                                         Line(launched, false),
		"2026-01-02T03:04:08Z  failed       task/f1/web.0: exited with 3":                                                      Line(failed, false),
		"2026-01-02T03:04:09Z  set          role/eng [2J (person ann)":                                                         Line(set, false),
		"2026-01-02T03:04:10Z  declined     offer/offer-2-1 agent/a1 framework/f1 role/eng: no room for web":                   Line(offer, false),
		"2026-01-02T03:04:08Z  failed       task/f1/web.0 agent/a1 framework/f1: exited with 3 [agent a1, change 3 of term 2]": Line(failed, true),
	} {
		if line != wanted {
			t.Errorf("%q, not %q", line, wanted)
		}
	}
}

// TestAStoryUpToAMoment: how a thing stood then comes first; what came later is set apart.
func TestAStoryUpToAMoment(t *testing.T) {
	s := &Story{Answer: &Answer{Events: []*apiv1.Event{
		event(2, 1, "offer/offer-2-1", "made", "", "agent/a1", "framework/f1"),
		event(2, 2, "task/f1/web.0", "launched", "", "agent/a1", "framework/f1"),
		event(2, 3, "task/f1/web.0", "running", "", "agent/a1", "framework/f1"),
		event(3, 9, "task/f1/web.0", "failed", "exited with 3", "agent/a1", "framework/f1"),
	}}, Of: "task/f1/web.0", At: began.Add(5 * time.Second)}
	if head := s.Head(); head != "task/f1/web.0 at 2026-01-02T03:04:10Z: running on agent/a1 since 2026-01-02T03:04:08Z" {
		t.Errorf("at the moment: %s", head)
	}
	lines := s.Lines()
	if at := slices.Index(lines, "afterwards:"); at != 3 || len(lines) != 5 || !strings.Contains(lines[4], "exited with 3") {
		t.Errorf("told as %q", lines)
	}
	s.At = began.Add(time.Minute)
	if head := s.Head(); !strings.HasSuffix(head, ": failed on agent/a1 since 2026-01-02T03:04:14Z: exited with 3") || slices.Contains(s.Lines(), "afterwards:") {
		t.Errorf("later: %s, %q", head, s.Lines())
	}
	s.At = began
	s.Events = s.Events[1:]
	if head, lines := s.Head(), s.Lines(); head != "task/f1/web.0 at 2026-01-02T03:04:05Z: nothing had happened to it yet" || lines[0] != "afterwards:" || len(lines) != 4 {
		t.Errorf("before: %s, %q", head, lines)
	}
	if head := (&Story{Answer: &Answer{}, Of: "task/x", At: began}).Head(); !strings.Contains(head, "nothing is known") {
		t.Errorf("of nothing: %s", head)
	}
}
