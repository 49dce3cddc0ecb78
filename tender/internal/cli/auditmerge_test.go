package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(began.Add(time.Duration(seconds) * time.Second))
}

// answer is the answer of a master: changes at these seconds, the newest first, each named by its second.
func answer(master string, seconds ...int) *apiv1.ListChangesResponse {
	a := &apiv1.ListChangesResponse{MasterId: master}
	for i, at := range seconds {
		a.Items = append(a.Items, &apiv1.ChangeView{At: after(at), MasterId: master, Index: uint64(len(seconds) - i)})
	}
	return a
}

// TestAnswersArePutTogether: changes are ordered by time, and those of the same time as their master has them. The
// newest are kept.
func TestAnswersArePutTogether(t *testing.T) {
	for _, c := range []struct {
		limit int
		want  string
		more  bool
	}{
		{0, "m1-1 m2-1 m1-2 m1-3 m2-2", false}, {5, "m1-1 m2-1 m1-2 m1-3 m2-2", false}, {2, "m1-3 m2-2", true},
	} {
		changes, more := mergeChanges([]*apiv1.ListChangesResponse{answer("m1", 5, 5, 1), answer("m2", 9, 3)}, c.limit)
		var got []string
		for _, change := range changes {
			got = append(got, change.GetMasterId()+"-"+string(rune('0'+change.GetIndex())))
		}
		if strings.Join(got, " ") != c.want || more != c.more {
			t.Errorf("at most %d: %v, and more: %v", c.limit, got, more)
		}
	}
	cut := answer("m1", 1)
	cut.NextPageToken = "1"
	if _, more := mergeChanges([]*apiv1.ListChangesResponse{cut}, 1); !more {
		t.Error("a master has more, and it is not said")
	}
}

func TestATableOfChanges(t *testing.T) {
	_, rows := changesTable([]*apiv1.ChangeView{
		{At: after(0), Who: "person ann", Call: "/tender.v1.OperatorService/Grant", Objects: []string{"principal/bob", "role/eng"}, Result: "ok"},
		{At: after(1), Who: "anybody", From: "10.0.0.1:7", Call: "master PUT /v1/log-level", Request: `"loud"`, Result: "invalid", Why: "no level", Index: 9, MasterId: "m1"},
		{At: after(2), Who: "anybody", Call: "/tender.v1.OperatorService/SetMaintenance", RequestCut: true, Result: "ok"},
		{At: after(3), Who: "person vic", Call: "/tender.v1.OperatorService/KillTask", Result: "denied"},
		{At: after(4), Who: "person ann", Call: "/tender.v1.OperatorService/MarkAgent", Objects: []string{"agent/a"}, Request: `{"agent_id":"a","action":"MARK_GONE","force":true}`, Result: "ok"},
		{At: after(5), Who: "person ann", Call: "/tender.v1.OperatorService/MarkAgent", Objects: []string{"agent/a"}, Request: `{"agent_id":"a","action":"DRAIN"}`, Result: "ok"},
		{At: after(6), Who: "person ann", Call: "/tender.v1.OperatorService/MarkAgent", RequestCut: true, Result: "ok"},
	}, true)
	for i, want := range []string{
		"2026-01-02T03:04:05Z|person ann|Grant|principal/bob, role/eng|ok|||0||",
		`2026-01-02T03:04:06Z|anybody|PUT /v1/log-level||invalid|m1|10.0.0.1:7|9|"loud"|no level`,
		"2026-01-02T03:04:07Z|anybody|SetMaintenance|?|ok|||0|(too long to be kept)|",
		"2026-01-02T03:04:08Z|person vic|KillTask|?|denied|||0|(not read)|",
		`2026-01-02T03:04:09Z|person ann|gone|agent/a|ok|||0|{"agent_id":"a","action":"MARK_GONE","force":true}|`,
		`2026-01-02T03:04:10Z|person ann|drain|agent/a|ok|||0|{"agent_id":"a","action":"DRAIN"}|`,
		"2026-01-02T03:04:11Z|person ann|MarkAgent|?|ok|||0|(too long to be kept)|",
	} {
		if got := strings.Join(rows[i], "|"); got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
}

// TestChangesHaveTheirVerbs: a call that serves several commands is shown as the command.
func TestChangesHaveTheirVerbs(t *testing.T) {
	for _, test := range []struct{ call, request, want string }{
		{"MarkAgent", `{"action":"REMOVE"}`, "remove"},
		{"Reserve", `{"action":"RESERVE"}`, "reserve"},
		{"Reserve", `{"action":"UNRESERVE"}`, "unreserve"},
		{"Reserve", `{"action":"CREATE_VOLUME","volume":"v"}`, "volume create"},
		{"Reserve", `{"action":"DESTROY_VOLUME","volume":"v"}`, "volume destroy"},
		{"SetMaintenance", `{"agent_ids":["a"],"window":{"duration":"1s"}}`, "maintenance set"},
		{"SetMaintenance", `{"agent_ids":["a"]}`, "maintenance clear"},
		{"SetRole", `{"role":"r","weight":2}`, "weight"},
		{"SetRole", `{"role":"r","priority":2}`, "priority"},
		{"SetRole", `{"role":"r","limit":"none"}`, "quota"},
		{"SetRole", `{"role":"r","guarantee":"none"}`, "quota"},
		{"SetRole", `cut`, "SetRole"},
		{"KillTask", `{}`, "KillTask"},
	} {
		if got := verbOf(&apiv1.ChangeView{Call: "/tender.v1.OperatorService/" + test.call, Request: test.request}); got != test.want {
			t.Errorf("%s %s is shown as %q, want %q", test.call, test.request, got, test.want)
		}
	}
}

// TestWhatIsMissingIsSaid: masters that have not answered, and those that have dropped some of what was asked for, are
// named.
func TestWhatIsMissingIsSaid(t *testing.T) {
	forgetful := answer("m1", 5)
	forgetful.Since = after(3)
	for _, c := range []struct {
		since *timestamppb.Timestamp
		want  bool
	}{{nil, true}, {after(2), true}, {after(3), false}, {after(4), false}} {
		var said strings.Builder
		tellForgottenChanges(&caller.Caller{Stderr: &said}, []*apiv1.ListChangesResponse{answer("m2", 1), forgetful}, c.since)
		if got := said.String() == "m1 remembers what it was asked since 2026-01-02T03:04:08Z; what was before may be in its audit log\n"; got != c.want || !c.want && said.Len() > 0 {
			t.Errorf("since %v it says %q", c.since, said.String())
		}
	}
	for want, silent := range map[string][]client.Silent{
		"": nil,
		"no answer from m1 (is down); what it was asked is missing\n":                {{ID: "m1", Why: "is down"}},
		"no answer from m1 (is down), m2 (hangs); what they were asked is missing\n": {{ID: "m1", Why: "is down"}, {ID: "m2", Why: "hangs"}},
	} {
		var said strings.Builder
		if tellSilentMasters(&caller.Caller{Stderr: &said}, silent); said.String() != want {
			t.Errorf("of %v it says %q", silent, said.String())
		}
	}
}

func TestWrongWishesAreRefused(t *testing.T) {
	for want, w := range map[string]auditWish{"--limit": {limit: -1}, "--on": {on: "a1"}} {
		if err := w.check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if err := (auditWish{span: spanFlags{since: "1h"}, on: "secret/eng/db", limit: 1}).check(); err != nil {
		t.Error(err)
	}
	for _, w := range []spanFlags{{since: "-1h"}, {until: "yesterday"}, {since: "1h", until: "2h"}} {
		if _, _, err := w.read(began); err == nil {
			t.Errorf("%+v is taken", w)
		}
	}
	since, until, err := (&spanFlags{since: "02:00", until: "3m"}).read(began)
	if err != nil || since.UTC().Format(time.RFC3339) != "2026-01-02T02:00:00Z" || until.UTC().Format(time.RFC3339) != "2026-01-02T03:01:05Z" {
		t.Errorf("%v, %v, %v", since, until, err)
	}
	if kinds, _ := completeThings(&caller.Caller{}, audit.ObjectKinds)(&cobra.Command{}, nil, "t"); !slices.Equal(kinds, []string{"task/", "token/"}) {
		t.Errorf("what begins with t: %v", kinds)
	}
}
