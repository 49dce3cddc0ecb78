package master

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// operator is the service as somebody has it, and what closes the connection.
func (w *walled) operator(who string) (apiv1.OperatorServiceClient, func()) {
	conn := w.from(who)
	return apiv1.NewOperatorServiceClient(conn), func() { _ = conn.Close() }
}

// changes returns the changes that an admin is told of: who asked for what with which result, the newest first.
func (w *walled) changes(r *apiv1.ListChangesRequest) (all []string) {
	w.t.Helper()
	admin, end := w.operator("admin")
	defer end()
	for {
		page, err := admin.ListChanges(w.ctx, r)
		if err != nil {
			w.t.Fatal(err)
		}
		if page.GetMasterId() != "m1" || page.GetSince() != nil {
			w.t.Errorf("%s answers, which knows all since %v", page.GetMasterId(), page.GetSince())
		}
		for _, item := range page.GetItems() {
			_, call, _ := strings.Cut(item.GetCall(), "Service/")
			all = append(all, strings.Join([]string{item.GetWho(), call, strings.Join(item.GetObjects(), " "), item.GetResult()}, "|"))
		}
		if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
			return all
		}
	}
}

// TestWhatWasChangedIsTold: who asked for what, selected in every possible way, page by page, by gRPC and as JSON.
func TestWhatWasChangedIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	behindWalls(t, file, func(w *walled) {
		mark := func(who, agent string) {
			operator, end := w.operator(who)
			defer end()
			_, _ = operator.MarkAgent(w.ctx, &apiv1.MarkAgentRequest{AgentId: agent, Action: apiv1.AgentAction_DRAIN})
			<-time.After(time.Minute) // in the bubble's time
		}
		began := time.Now()
		mark("viewer", "a1") // may not
		mark("nobody", "a1") // and leaves no line
		mark("operator", "a1")
		later := time.Now()
		mark("operator", "a2")
		admin, end := w.operator("admin")
		defer end()
		if _, err := admin.SetRole(w.ctx, &apiv1.SetRoleRequest{Role: "eng", Weight: new(float64)}); err == nil {
			t.Error("a role has no weight")
		}
		if _, err := admin.Grant(w.ctx, &apiv1.GrantRequest{Principal: "new", Grant: &apiv1.PrincipalGrant{Verb: "view", Role: "eng"}}); err != nil {
			t.Fatal(err)
		}
		const (
			denied  = "person viewer|MarkAgent|agent/a1|denied"
			drained = "person operator|MarkAgent|agent/a1|not found"
			other   = "person operator|MarkAgent|agent/a2|not found"
			set     = "person admin|SetRole|role/eng|invalid"
			granted = "person admin|Grant|principal/new role/eng|ok"
		)
		for _, c := range []struct {
			request *apiv1.ListChangesRequest
			want    []string
		}{
			{&apiv1.ListChangesRequest{}, []string{granted, set, other, drained, denied}},
			{&apiv1.ListChangesRequest{Limit: 2}, []string{granted, set, other, drained, denied}},
			{&apiv1.ListChangesRequest{Since: timestamppb.New(began)}, []string{granted, set, other, drained, denied}},
			{&apiv1.ListChangesRequest{Since: timestamppb.New(later)}, []string{granted, set, other}},
			{&apiv1.ListChangesRequest{On: "agent/a1"}, []string{drained, denied}},
			{&apiv1.ListChangesRequest{On: "role/eng", Limit: 1}, []string{granted, set}},
			{&apiv1.ListChangesRequest{By: "operator"}, []string{other, drained}},
			{&apiv1.ListChangesRequest{Denied: true}, []string{denied}},
			{&apiv1.ListChangesRequest{Denied: true, By: "operator"}, nil},
		} {
			said := c.request.String()
			if got := w.changes(c.request); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", said, got, c.want)
			}
		}
		for what, request := range map[string]*apiv1.ListChangesRequest{
			"page_token": {PageToken: "x"}, "on": {On: "a1"}, "since": {Since: &timestamppb.Timestamp{Nanos: -1}},
		} {
			if _, err := admin.ListChanges(w.ctx, request); wire.Error(err).Kind != api.Invalid || wire.Error(err).Subject != what {
				t.Errorf("%v: %v", request, err)
			}
		}
		code, text := w.fetch("admin", http.MethodGet, "/v1/ListChanges?denied=true&since="+began.UTC().Format(time.RFC3339), "")
		var answer struct {
			Items []struct{ Who, From, Why string }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK || len(answer.Items) != 1 ||
			!strings.HasPrefix(answer.Items[0].From, "viewer:") || !strings.Contains(answer.Items[0].Why, "mark agent") {
			t.Errorf("as JSON: %d, %v, %s", code, err, text)
		}
	})
}

// TestWhatWasMeantIsTold: a call that names its object by another of its names, or that is denied in any way, is found
// by the object's ID. If its request has not arrived, the answer says that the object is not known.
func TestWhatWasMeantIsTold(t *testing.T) {
	behindWalls(t, filepath.Join(t.TempDir(), "audit.log"), func(w *walled) {
		w.commit(registry.AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"})
		w.commit(registry.AdmitAgent{Agent: api.Agent{Hostname: "h2"}, Nonce: "n2"})
		synctest.Wait() // the leader's core knows them
		ids := map[string]string{}
		for id, known := range w.raft.Registry().Agents {
			ids[known.Agent.Hostname] = string(id)
		}
		for _, c := range []struct{ who, method, body, want string }{
			{"operator", "MarkAgent", `{"agent_id":"h1","action":"DEACTIVATE"}`, "person operator|MarkAgent|agent/h1 agent/ID|ok"},
			{"operator", "MarkAgent", `{"agent_id":"ID","action":"REACTIVATE"}`, "person operator|MarkAgent|agent/ID|ok"},
			{"operator", "SetMaintenance", `{"agent_ids":["h2","h1"]}`, "person operator|SetMaintenance|agent/h2 agent/h1 agent/h2-ID agent/ID|ok"},
			{"admin", "Reserve", `{"agent_id":"h1","role":"eng"}`, "person admin|Reserve|agent/h1 role/eng agent/ID|unsupported"},
			{"operator", "MarkAgent", `{"agent_id":"h1","action":"REMOVE"}`, "person operator|MarkAgent|agent/h1 agent/ID|denied"},
			{"viewer", "MarkAgent", `{"agent_id":"ID"}`, "person viewer|MarkAgent|agent/ID|denied"},
			{"viewer", "MarkAgent", `{"agent_id":`, "person viewer|MarkAgent||denied"}, // what was sent is no request
			{"nobody", "MarkAgent", `{"agent_id":"ID"}`, ""},
		} {
			named := func(text string) string {
				return strings.ReplaceAll(strings.ReplaceAll(text, "h2-ID", ids["h2"]), "ID", ids["h1"])
			}
			before := w.changes(&apiv1.ListChangesRequest{})
			_, text := w.fetch(c.who, http.MethodPost, "/v1/"+c.method, named(c.body))
			got := w.changes(&apiv1.ListChangesRequest{On: "agent/" + ids["h1"]})
			if all := w.changes(&apiv1.ListChangesRequest{}); c.want == "" && len(all) != len(before) || len(all) > len(before)+1 {
				t.Errorf("%s %s: there are %d lines after %d", c.who, c.body, len(all), len(before))
			}
			if c.want != "" && (len(got) == 0 || got[0] != named(c.want)) {
				t.Errorf("%s %s: %q, want %q first; the answer was %s", c.who, c.body, got, named(c.want), text)
			}
		}
	})
}

// TestACallIsDecidedAboutBeforeItsRequestIsRead: an unknown caller is denied at once. The request of a known caller is
// still read, so that the audit log has it; if the caller breaks off, there is a line nevertheless.
func TestACallIsDecidedAboutBeforeItsRequestIsRead(t *testing.T) {
	behindWalls(t, filepath.Join(t.TempDir(), "audit.log"), func(w *walled) {
		// head sends the head of a call alone.
		head := func(who string) (stream grpc.ClientStream, end func()) {
			conn := w.from(who)
			ctx, cancel := context.WithCancel(w.ctx)
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, apiv1.OperatorService_MarkAgent_FullMethodName)
			if err != nil {
				t.Fatal(err)
			}
			return stream, func() {
				cancel()
				<-time.After(time.Second) // in the bubble's time
				_ = conn.Close()
			}
		}
		stranger, end := head("nobody")
		if err := stranger.RecvMsg(&apiv1.ActionResponse{}); !denied(err) {
			t.Errorf("nobody is answered %v", err)
		}
		end()
		_, end = head("viewer")
		<-time.After(time.Second)
		end()
		if got := w.changes(&apiv1.ListChangesRequest{On: "agent/a1"}); !slices.Equal(got, []string{"person viewer|MarkAgent||denied"}) {
			t.Errorf("it is told as %q", got)
		}
		_, text := w.fetch("admin", http.MethodGet, "/metrics", "")
		for _, line := range []string{
			`tender_calls_denied_total{by="nobody",call="/tender.v1.OperatorService/MarkAgent"} 1`,
			`tender_calls_denied_total{by="person",call="/tender.v1.OperatorService/MarkAgent"} 1`,
			`tender_calls_total{kind="denied",method="/tender.v1.OperatorService/MarkAgent"} 2`,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("the metrics have no %s", line)
			}
		}
	})
}

// TestAChangeThatCantBeWrittenDown is made nevertheless, because it may be what frees the disk. It is counted, and
// listed from memory.
func TestAChangeThatCantBeWrittenDown(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	behindWalls(t, full, func(w *walled) {
		admin, end := w.operator("admin")
		defer end()
		if _, err := admin.Grant(w.ctx, &apiv1.GrantRequest{Principal: "new", Grant: &apiv1.PrincipalGrant{Verb: "view", Role: "eng"}}); err != nil {
			t.Error(err)
		}
		told, err := admin.ListChanges(w.ctx, &apiv1.ListChangesRequest{On: "principal/new"})
		if err != nil || len(told.GetItems()) != 1 || told.GetItems()[0].GetWho() != "person admin" {
			t.Errorf("it is told as %v, %v", told, err)
		}
		if _, text := w.fetch("admin", http.MethodGet, "/metrics", ""); !strings.Contains(text, "\ntender_audit_unwritten_total 1\n") {
			t.Error("it is not counted")
		}
	})
}

// TestWhoMayBeToldOfChanges: admins, and callers that were granted only that, for everything.
func TestWhoMayBeToldOfChanges(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		ask := func(who string) error {
			operator, end := w.operator(who)
			defer end()
			_, err := operator.ListChanges(w.ctx, &apiv1.ListChangesRequest{})
			return err
		}
		for who := range identities() {
			if err := ask(who); (err == nil) != (who == "admin") {
				t.Errorf("%s: %v", who, err)
			}
		}
		admin, end := w.operator("admin")
		defer end()
		for role, may := range map[string]bool{"eng": false, "": true} {
			grant := &apiv1.PrincipalGrant{Verb: "list-changes", Role: role}
			if _, err := admin.Grant(w.ctx, &apiv1.GrantRequest{Principal: "viewer", Grant: grant}); err != nil {
				t.Fatal(err)
			}
			if err := ask("viewer"); denied(err) == may {
				t.Errorf("granted in role %q: %v", role, err)
			}
			if _, err := admin.Revoke(w.ctx, &apiv1.RevokeRequest{Principal: "viewer", Grant: grant}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
