package master

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// operator is the service as somebody has it, and what closes the connection.
func (w *walled) operator(who string) (apiv1.OperatorServiceClient, func()) {
	conn := w.from(who)
	return apiv1.NewOperatorServiceClient(conn), func() { _ = conn.Close() }
}

// changes are those that an admin is told of: who has asked for what with which result, the newest first.
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

// TestWhatWasChangedIsTold: who has asked for what, selected by all that can be said, page by page, by gRPC and as JSON.
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
			denied  = "person viewer|MarkAgent||denied" // before its request was read
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
			{&apiv1.ListChangesRequest{On: "agent/a1"}, []string{drained}},
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

// TestWhoMayBeToldOfChanges: admins, and who was granted that alone, for all there is.
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
