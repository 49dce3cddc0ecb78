package master

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/registry"
)

// identities returns the identity of the caller from each host.
func identities() map[string]trust.Identity {
	person := func(name string) trust.Identity {
		return trust.Identity{Cluster: "ours", Kind: trust.Person, Name: name}
	}
	return map[string]trust.Identity{
		"nobody":       {},
		"agent-9":      {Cluster: "ours", Kind: trust.Agent, Name: "of another name"},
		"removed":      {Cluster: "ours", Kind: trust.Master, Name: "m9"}, // from the quorum; it has the key still
		"foreign":      {Cluster: "theirs", Kind: trust.Person, Name: "admin"},
		"revoked":      person("revoked"),
		"new":          person("new"),
		"viewer":       person("viewer"),
		"operator":     person("operator"),
		"killer":       person("killer"),
		"admin":        person("admin"),
		"runner":       {Cluster: "ours", Kind: trust.Framework, Name: "runner"},
		"other-runner": {Cluster: "ours", Kind: trust.Framework, Name: "other-runner"},
		"agent":        {Cluster: "ours", Kind: trust.Agent, Name: "nonce"},
		"master":       {Cluster: "ours", Kind: trust.Master, Name: "m1"},
	}
}

// granted is what principals may.
func granted() map[string]rights.Grant {
	return map[string]rights.Grant{
		"revoked": {Verb: rights.Admin}, "viewer": {Verb: rights.View}, "operator": {Verb: rights.Operate}, "killer": {Verb: "kill-task", Role: "eng"},
		"admin": {Verb: rights.Admin}, "runner": {Verb: rights.Run, Role: "eng"}, "other-runner": {Verb: rights.Run, Role: "ops"},
	}
}

// walled is a master that knows callers by the hosts they call from.
type walled struct {
	*Master
	t   *testing.T
	net *memnet.Net
	ctx context.Context
}

// behindWalls runs a test with a leader that identifies its callers.
func behindWalls(t *testing.T, audit string, test func(*walled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		m, err := New(Config{
			ID: "m1", Memory: NewMemory(), Peers: []Peer{{ID: "m1", Addr: "host:5070"}}, GRPC: "host:5060", HTTP: "host:5050", Raft: "host:5070",
			Listen: network.Listen, Dial: network.From("host").Dial, Version: "test",
			Access: Access{Domain: "ours", AuditLog: audit, Identify: func(ctx context.Context) trust.Identity {
				host, _, _ := net.SplitHostPort(guard.From(ctx))
				return identities()[host]
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		UntilLeads(t, m)
		w := &walled{m, t, network, ctx}
		for name, grant := range granted() {
			w.commit(registry.Grant{Principal: name, Grant: grant})
		}
		w.commit(registry.RevokePrincipal{Principal: "revoked", Why: "it leaked", SawGrants: []rights.Grant{granted()["revoked"]}})
		test(w)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// commit changes the registry, once it may.
func (w *walled) commit(change registry.Change) {
	w.t.Helper()
	if err := w.leading.commit(w.ctx, "test", change); err != nil {
		w.t.Fatal(err)
	}
}

// from connects as somebody.
func (w *walled) from(who string) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+w.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(w.net.From(who).Dial))
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// fetch asks by HTTP as somebody.
func (w *walled) fetch(who, method, path, body string) (code int, text string) {
	w.t.Helper()
	dial := w.net.From(who).Dial
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(w.ctx, method, "http://"+w.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(read)
}

func denied(err error) bool { return err != nil && wire.Error(err).Kind == api.Denied }

// may says what the table has for somebody.
func may(row rights.Row, who string) bool {
	identity := identities()[who]
	caller := rights.Caller{Kind: rights.Kind(identity.Kind.String()), Name: identity.Name}
	if grant, is := granted()[who]; is {
		caller.Grants = []rights.Grant{grant}
	}
	if who == "revoked" {
		caller.Revoked = "it leaked"
	}
	if who == "foreign" {
		caller.Foreign = identity.Cluster
	}
	_, err := rights.Decide(row, caller)
	return err == nil
}

// TestTheTableIsWhatMastersDo tries every method and every route, by gRPC, as a direct stream, by HTTP and as JSON, as
// everybody.
func TestTheTableIsWhatMastersDo(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		tried := map[string]bool{}
		for who := range identities() {
			conn := w.from(who)
			try := func(call string, open func(context.Context) (grpc.ClientStream, error)) {
				row, has := rights.RowOf(call)
				if !has {
					t.Errorf("%s is served and has no row in the table", call)
					return
				}
				tried[call] = true
				if err := w.try(open, who, call); denied(err) == may(row, who) {
					t.Errorf("%s by %s: %v; the table says %v", call, who, err, may(row, who))
				}
			}
			for service, info := range w.server.GetServiceInfo() {
				for _, method := range info.Methods {
					call := "/" + service + "/" + method.Name
					try(call, func(ctx context.Context) (grpc.ClientStream, error) {
						return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, call)
					})
				}
			}
			try(apiv1.AgentService_Session_FullMethodName, func(ctx context.Context) (grpc.ClientStream, error) {
				return OpenAgent(ctx, t, w.net.From(who).Dial, w.GRPCAddr()), nil
			})
			_ = conn.Close()
			w.tryRoutes(who, tried)
		}
		for _, row := range rights.Table {
			elsewhere := strings.HasPrefix(row.Call, "agent ") || row.Call == "master DNS" || // see TestNamesAreAnswered
				strings.HasPrefix(row.Call, "raft ") || // see TestTheTableIsWhatRaftIsTold
				strings.HasPrefix(row.Call, "page ") || // see TestThePageShowsWhatItsPersonMaySee
				strings.Contains(row.Call, "ExecutorService") || strings.Contains(row.Call, "AllocatorService")
			if !elsewhere && !tried[row.Call] {
				t.Errorf("%s has a row, and nobody serves it", row.Call)
			}
		}
	})
}

// try makes a call with an empty request, and returns what the first answer is.
func (w *walled) try(open func(context.Context) (grpc.ClientStream, error), who, call string) error {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	var request proto.Message = &emptypb.Empty{}
	if strings.HasSuffix(call, "/Announce") {
		request = &apiv1.AnnounceRequest{Id: identities()[who].Name, ClusterId: string(w.Cluster())} // its own
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (w *walled) tryRoutes(who string, tried map[string]bool) {
	for pattern := range w.http.routes() {
		call := "master " + pattern
		row, has := rights.RowOf(call)
		if !has {
			w.t.Errorf("%s is served and has no row in the table", call)
			continue
		}
		tried[call] = true
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			method, path = http.MethodGet, pattern
		}
		allowed := may(row, who)
		if allowed && (strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") || strings.HasSuffix(path, "/watch")) {
			continue // they take long, or have no end
		}
		if code, text := w.fetch(who, method, path, ""); (code == http.StatusForbidden) == allowed {
			w.t.Errorf("%s by %s: %d %s; the table says %v", call, who, code, text, allowed)
		}
	}
	for method, served := range w.http.newJSONHandler().methods {
		row, _ := rights.RowOf(served.name)
		if code, text := w.fetch(who, "POST", "/v1/"+method, "{}"); (code == http.StatusForbidden) == may(row, who) {
			w.t.Errorf("POST /v1/%s by %s: %d %s; the table says %v", method, who, code, text, may(row, who))
		}
	}
}

// TestAViewShowsWhatOneMaySee: a framework sees only its own tasks, and a caller that is neither the owner nor an admin
// sees no environments.
func TestAViewShowsWhatOneMaySee(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		own := w.subscribe("runner", "eng/web")
		other := w.subscribe("other-runner", "ops")
		for who, sees := range map[string][]string{
			"runner": {own}, "other-runner": {other}, "viewer": {own, other}, "operator": {own, other}, "admin": {own, other},
		} {
			conn := w.from(who)
			list, err := apiv1.NewOperatorServiceClient(conn).ListFrameworks(w.ctx, &apiv1.ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, item := range list.GetItems() {
				ids = append(ids, item.GetId())
			}
			if slices.Sort(sees); !slices.Equal(ids, sees) {
				t.Errorf("%s sees %v, want %v", who, ids, sees)
			}
			_, err = apiv1.NewOperatorServiceClient(conn).Explain(w.ctx, &apiv1.ExplainRequest{FrameworkId: own})
			if explained := err == nil; explained != slices.Contains(sees, own) {
				t.Errorf("%s asks why %s is not offered more: %v", who, own, err)
			}
			store := &apiv1.StoreSession{FrameworkId: own, Session: 1, Instance: "i-runner"}
			_, err = apiv1.NewStoreServiceClient(conn).Get(w.ctx, &apiv1.StoreGetRequest{Session: store, Key: "k"})
			if (err == nil) != (who == "runner") {
				t.Errorf("%s reads the store of %s: %v", who, own, err)
			}
			_ = conn.Close()
		}
	})
}

// subscribe begins a framework, and returns its ID.
func (w *walled) subscribe(who string, role api.Role) string {
	w.t.Helper()
	events, err := w.open(who, protocol.Subscribe{Framework: api.Framework{Name: who, Roles: []api.Role{role}}, Instance: api.Nonce("i-" + who)})
	if err != nil {
		w.t.Fatal(err)
	}
	return events.GetEvents()[0].GetSubscribed().GetFrameworkId()
}

func (w *walled) open(who string, subscribe protocol.Subscribe) (*apiv1.SchedulerEvents, error) {
	return w.session(who, subscribe).Recv()
}

// session opens a scheduler's stream and says who it is.
func (w *walled) session(who string, subscribe protocol.Subscribe) grpc.BidiStreamingClient[apiv1.SchedulerCalls, apiv1.SchedulerEvents] {
	w.t.Helper()
	conn := w.from(who)
	w.t.Cleanup(func() { _ = conn.Close() })
	stream, err := apiv1.NewSchedulerServiceClient(conn).Session(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	batches, err := wire.SchedulerCallBatches([]protocol.NumberedCall{{Number: 1, Call: subscribe}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, batch := range batches {
		if err := stream.Send(batch); err != nil && !errors.Is(err, io.EOF) { // what is received says why
			w.t.Fatal(err)
		}
	}
	return stream
}

// TestWhoIsRevokedIsOut: at once, and where rights have changed the stream ends so that it comes back with what holds now.
func TestWhoIsRevokedIsOut(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		admin := w.from("admin")
		defer admin.Close()
		watch := func(who string) <-chan error {
			conn := w.from(who)
			stream, err := apiv1.NewWatchServiceClient(conn).Watch(w.ctx, &apiv1.WatchRequest{Kinds: []string{"principal"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				defer conn.Close()
				_, err := stream.Recv()
				ended <- err
			}()
			return ended
		}
		viewer, operator, other := watch("viewer"), watch("operator"), watch("other-runner")
		began := time.Now()
		if _, err := apiv1.NewOperatorServiceClient(admin).Revoke(w.ctx, &apiv1.RevokeRequest{Principal: "viewer"}); err != nil {
			t.Fatal(err)
		}
		if err := <-viewer; !denied(err) || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("a revoked one's stream ended with %v", err)
		}
		grant := &apiv1.PrincipalGrant{Verb: "operate"}
		if _, err := apiv1.NewOperatorServiceClient(admin).Revoke(w.ctx, &apiv1.RevokeRequest{Principal: "operator", Grant: grant}); err != nil {
			t.Fatal(err)
		}
		if err := <-operator; !denied(err) {
			t.Errorf("the stream of one who may nothing any more ended with %v", err)
		}
		more := &apiv1.PrincipalGrant{Verb: "view", Role: "eng"}
		if _, err := apiv1.NewOperatorServiceClient(admin).Grant(w.ctx, &apiv1.GrantRequest{Principal: "other-runner", Grant: more}); err != nil {
			t.Fatal(err)
		}
		if err := <-other; wire.Error(err).Kind != api.Unavailable {
			t.Errorf("the stream of one who may more now ended with %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestARevokedFrameworkIsOut: its stream ends at once and says why, it gets no other one, and its tasks have as long as its
// failover time says.
func TestARevokedFrameworkIsOut(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		admin := w.from("admin")
		defer admin.Close()
		operator := apiv1.NewOperatorServiceClient(admin)
		subscribe := protocol.Subscribe{Framework: api.Framework{Name: "runner", Roles: []api.Role{"eng"}, FailoverTimeout: time.Minute}, Instance: "i1"}
		stream := w.session("runner", subscribe)
		first, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := operator.Revoke(w.ctx, &apiv1.RevokeRequest{Principal: "runner", Why: "it leaked"}); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if !denied(err) || !strings.Contains(err.Error(), "it leaked") || time.Since(began) > 5*time.Second {
			t.Errorf("after %v its stream ends with %v", time.Since(began), err)
		}
		subscribe.Framework.ID = api.FrameworkID(first.GetEvents()[0].GetSubscribed().GetFrameworkId())
		if _, err := w.session("runner", subscribe).Recv(); !denied(err) {
			t.Errorf("it comes back and is told %v", err)
		}
		state := func() string {
			synctest.Wait() // until the leader has heard of it
			list, err := operator.ListFrameworks(w.ctx, &apiv1.ListRequest{All: true})
			if err != nil || len(list.GetItems()) != 1 {
				t.Fatalf("the frameworks are %v, %v", list, err)
			}
			return list.GetItems()[0].GetState()
		}
		if now := state(); now != "disconnected" {
			t.Errorf("it is %s", now)
		}
		<-time.After(59*time.Second - time.Since(began)) // in the bubble's time
		if now := state(); now != "disconnected" {
			t.Errorf("before its failover time is over it is %s", now)
		}
		<-time.After(5 * time.Second)
		if now := state(); now != "removed" {
			t.Errorf("after its failover time it is %s", now)
		}
	})
}

// TestAnAgentWithoutRightsIsOut (R85): what ends a stream ends an agent's at once, though the agent says nothing.
func TestAnAgentWithoutRightsIsOut(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		listener, err := w.net.Listen("host:5061")
		if err != nil {
			t.Fatal(err)
		}
		entered := make(chan context.CancelCauseFunc, 1)
		sessions := direct.NewServer(receiveBytesMax, func(stream grpc.ServerStream) error { // as the guard has it
			ctx, end := context.WithCancelCause(stream.Context())
			entered <- end
			return apiv1.AgentService_ServiceDesc.Streams[0].Handler(agentService{leading: w.leading}, guard.OnStream(ctx, stream))
		})
		server := grpc.NewServer(grpc.Creds(sessions.Credentials(insecure.NewCredentials())))
		go func() { _ = server.Serve(listener) }()
		stream := OpenAgent(w.ctx, t, w.net.From("agent").Dial, "host:5061")
		end, began := <-entered, time.Now()
		end(api.E("rights", api.Denied, "agent", errors.New("it may no longer")))
		if _, err := stream.Recv(); !denied(err) || time.Since(began) != 0 {
			t.Errorf("after %v it ends with %v", time.Since(began), err)
		}
		server.Stop()
		sessions.Wait()
	})
}

// TestAForgottenAgentStaysOut: an agent that was removed does not come back with a certificate that was signed before.
func TestAForgottenAgentStaysOut(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		w.commit(registry.AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"})
		w.commit(registry.AdmitAgent{Agent: api.Agent{Hostname: "h2"}, Nonce: "n2"})
		w.commit(registry.RemoveAgent{ID: "agent-2", Nonce: "n2", Saw: 1})
		old, fresh := time.Now().Add(-25*time.Hour), time.Now().Add(-time.Hour)
		again := func(nonce api.Nonce, id api.AgentID) protocol.AgentCall {
			return protocol.ReregisterAgent{Nonce: nonce, Agent: api.Agent{ID: id}}
		}
		for name, test := range map[string]struct {
			signed time.Time
			first  protocol.AgentCall
			out    bool
		}{
			"a new one":                           {fresh, protocol.RegisterAgent{Nonce: "n3"}, false},
			"one without a certificate":           {time.Time{}, protocol.RegisterAgent{Nonce: "n3"}, false},
			"one that is known":                   {old, again("n1", "agent-1"), false},
			"whose first answer was lost":         {old, protocol.RegisterAgent{Nonce: "n1"}, false},
			"a removed one, as it was":            {old, again("n2", "agent-2"), false}, // it is told by its number that it was removed (R16)
			"a removed one, as a new one":         {old, protocol.RegisterAgent{Nonce: "n2"}, true},
			"a removed one, as one of the future": {old, again("n2", "agent-99"), true},
		} {
			if err := w.leading.admitsAgent(rights.Caller{}, test.signed, test.first); (err != nil) != test.out || test.out && err.Kind != api.Denied {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.commit(registry.RaiseEpoch{Epoch: 1}) // restored: it has forgotten agents
		if err := w.leading.admitsAgent(rights.Caller{}, old, again("n4", "agent-99")); err != nil {
			t.Errorf("one that a restored registry has forgotten: %v", err)
		}
	})
}

// TestAnAgentSpeaksForItself: its first call names the nonce of its certificate.
func TestAnAgentSpeaksForItself(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		for nonce, may := range map[api.Nonce]bool{"nonce": true, "another": false} {
			stream := OpenAgent(w.ctx, t, w.net.From("agent").Dial, w.GRPCAddr())
			batches, err := wire.AgentCallBatches([]protocol.AgentCall{protocol.RegisterAgent{Nonce: nonce, Agent: api.Agent{Hostname: "h"}, BootID: "b"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(batches[0]); err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			if (err == nil) != may || err != nil && !denied(err) {
				t.Errorf("nonce %s: %v", nonce, err)
			}
		}
	})
}

// TestChangesAreWrittenDown: who asked, for what, on what, from where, with which result. Reading leaves no line.
func TestChangesAreWrittenDown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	behindWalls(t, file, func(w *walled) {
		w.fetch("operator", "POST", "/v1/KillTask", `{"task":"t1"}`)
		w.fetch("viewer", "POST", "/v1/KillTask", `{"task":"t1"}`)
		w.fetch("nobody", "POST", "/v1/KillTask", `{"task":"t1"}`)
		w.fetch("admin", "POST", "/v1/SetRole", `{"role":"web","weight":2}`)
		w.fetch("viewer", "GET", "/v1/ListAgents", "")
		_, text := w.fetch("viewer", "GET", "/metrics", "")
		for _, line := range []string{
			`tender_calls_denied_total{by="person",call="/tender.v1.OperatorService/KillTask"} 1`,
			`tender_calls_denied_total{by="nobody",call="/tender.v1.OperatorService/KillTask"} 1`,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("the metrics have no %s", line)
			}
		}
	})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, want := range [][]string{
		{`"who":"person operator"`, `"from":"operator:`, `KillTask"`, `"on":{"task":"t1"}`, `"result":"not found"`},
		{`"who":"person viewer"`, `"result":"denied"`, "tender grant viewer kill-task"},
		{`"who":"person admin"`, `SetRole"`, `"result":"ok"`, `"index":`},
	} {
		for _, part := range want {
			if i >= len(lines) || !strings.Contains(lines[i], part) {
				t.Errorf("line %d of the audit log has no %s: %s", i+1, part, text)
			}
		}
	}
	if len(lines) != 3 {
		t.Errorf("the audit log has %d lines, want 3:\n%s", len(lines), text)
	}
}

// TestNobodyGrantsMoreThanHeHas: and nobody revokes himself.
func TestNobodyGrantsMoreThanHeHas(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		w.commit(registry.Grant{Principal: "new", Grant: rights.Grant{Verb: rights.Admin, Role: "eng"}})
		for i, test := range []struct {
			who, method, body string
			code              int
		}{
			{"new", "Grant", `{"principal":"bob","grant":{"verb":"run","role":"eng/web"}}`, 200},
			{"new", "Grant", `{"principal":"bob","grant":{"verb":"run","role":"ops"}}`, 403},
			{"new", "Grant", `{"principal":"bob","grant":{"verb":"view"}}`, 403},
			{"new", "Revoke", `{"principal":"operator"}`, 403},
			{"new", "Revoke", `{"principal":"bob","grant":{"verb":"run","role":"eng/web"}}`, 200},
			{"admin", "Revoke", `{"principal":"bob","grant":{"verb":"run","role":"eng/web"}}`, 404},
			{"admin", "Revoke", `{"principal":"admin"}`, 400},
			{"admin", "Grant", `{"principal":"bob","grant":{"verb":"fly"}}`, 400},
			{"admin", "Revoke", `{"principal":"bob","why":"gone"}`, 200},
			{"admin", "Grant", `{"principal":"bob","grant":{"verb":"view"}}`, 410},
			{"admin", "Revoke", `{}`, 400},
			{"killer", "CanI", `{"wish":{"verb":"kill-task","role":"eng/web"}}`, 200},
			{"killer", "WhoAmI", `{}`, 200},
			{"admin", "ListPrincipals", `{"all":true}`, 200},
		} {
			if code, text := w.fetch(test.who, "POST", "/v1/"+test.method, test.body); code != test.code {
				t.Errorf("%d: %s asks for %s %s: %d %s", i, test.who, test.method, test.body, code, text)
			}
		}
		_, text := w.fetch("killer", "POST", "/v1/CanI", `{"wish":{"verb":"kill-task","role":"ops"}}`)
		if !strings.Contains(text, `"allowed": false`) || !strings.Contains(text, "tender grant killer kill-task --role ops") {
			t.Errorf("can-i answers %s", text)
		}
		_, text = w.fetch("admin", "GET", "/v1/ListPrincipals?limit=2", "")
		if !strings.Contains(text, `"next_page_token": "killer"`) {
			t.Errorf("a page of principals is %s", text)
		}
	})
}

// TestWithoutIdentitiesAnybodyMayEverything: by the same table.
func TestWithoutIdentitiesAnybodyMayEverything(t *testing.T) {
	for _, row := range rights.Table {
		if scope, err := rights.Decide(row, rights.Caller{Kind: rights.Anybody}); err != nil || !scope.Everything {
			t.Errorf("%s: %v", row.Call, err)
		}
	}
}
