package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/mesos/codec"
	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	"github.com/tenderhq/tender/internal/wire"
)

// cluster is a cluster as one caller sees it, from a test.
type cluster struct {
	apiv1.OperatorServiceClient
	said  func(format string, args ...any)
	fails error
	news  chan *apiv1.WatchResponse
	agent net.Listener // answers for the files of tasks
	shut  bool
}

func (c *cluster) Operator() apiv1.OperatorServiceClient { return c }
func (c *cluster) Close() error                          { c.shut = true; return nil }

func (c *cluster) Watch(ctx context.Context, request *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error] {
	return func(yield func(*apiv1.WatchResponse, error) bool) {
		for {
			select {
			case response, open := <-c.news:
				if !open {
					yield(nil, api.E("watch", api.Unavailable, "", errors.New("no master answers")))
					return
				}
				if !yield(response, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (c *cluster) ReadTicket(_ context.Context, task api.TaskRef, agent api.AgentID) (string, time.Duration, error) {
	return fmt.Sprintf("ticket for %v on %s", task, agent), time.Minute, nil
}

func (c *cluster) ExecTicket(context.Context, api.TaskRef, api.AgentID) (string, error) {
	return "exec", nil
}

func (c *cluster) DialAgent(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", c.agent.Addr().String())
}

var at = timestamppb.New(time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC))

func amount(text string) *structpb.Struct {
	return wire.ResourcesStruct(api.MustParseResources(text))
}

func agentViews() []*apiv1.AgentView {
	return []*apiv1.AgentView{
		{
			Id: "agent-1", Hostname: "host-1", State: "RUNNING", Admitted: at, Address: "10.0.0.1:5061", Region: "eu", Zone: "a",
			Total:     amount("cpus:4;mem:1024;ports:[31000-31009];disk(web,dynamic,volume=v1):10"),
			Allocated: amount("cpus:1;mem:32;ports:[31000-31000]"), Offered: amount("cpus:1"), Attributes: map[string]string{"rack": "r1", "slots": "2"},
			Maintenance: &apiv1.Window{Start: at, Duration: durationpb.New(time.Hour)},
		},
		{Id: "agent-2", Hostname: "host-2", State: "BUSY", Marks: []string{"draining", "drained"}, Admitted: at, Address: "10.0.0.2:5061", Total: amount("cpus:2")},
		{Id: "agent-3", Hostname: "host-3", State: "DISCONNECTED", Admitted: at, Total: amount("cpus:2")},
		{Id: "agent-4", Hostname: "host-4", State: "TOMBSTONE", Admitted: at, Total: amount("cpus:2")},
		{Id: "agent-5", Hostname: "host-5", State: "RUNNING", Marks: []string{"gone"}, Admitted: at, Total: amount("cpus:2")},
	}
}

func frameworkViews() []*apiv1.FrameworkView {
	return []*apiv1.FrameworkView{
		{
			Id: "framework-1", Name: "old", State: "active", Principal: "ann", Roles: []string{"default", "web"}, Admitted: at, Allocated: amount("cpus:1;mem:32"),
			Offered: amount("cpus:1"), FailoverTimeout: durationpb.New(time.Minute), Labels: map[string]string{"k": "v"}, Endpoints: map[string]string{"webui": "http://ui"},
		},
		{Id: "framework-2", Name: "gone", State: "removed", Roles: []string{"default"}, Admitted: at, Since: at},
	}
}

func taskViews() []*apiv1.TaskView {
	code, yes := int32(3), true
	return []*apiv1.TaskView{
		{
			Id: "my%20task", FrameworkId: "framework-1", Name: "my task", Role: "default", State: "RUNNING", AgentId: "agent-1", Hostname: "10.0.0.1",
			AgentAddress: "10.0.0.1:5061", ExecutorId: "old", Resources: amount("cpus:1;mem:32;ports:[31000-31000]"), Launched: at, Since: at, Healthy: &yes,
			Labels: map[string]string{"a": "b"}, Ports: map[string]uint32{"http": 31000},
		},
		{
			Id: "job", FrameworkId: "framework-1", Name: "job", Role: "web", State: "FAILED", AgentId: "agent-1", Hostname: "10.0.0.1", AgentAddress: "10.0.0.1:5061",
			ExecutorId: "command", Resources: amount("cpus:1"), Launched: at, Since: at, ExitCode: &code, Image: "alpine:3", Command: &apiv1.Command{User: "bob"},
		},
		{Id: "lost", FrameworkId: "framework-1", Name: "lost", Role: "web", State: "UNREACHABLE", AgentId: "agent-4", ExecutorId: "command", Launched: at, Since: at},
	}
}

// page shows lists in pages of two.
func page[Item any](all []Item, token string) (items []Item, next string) {
	var from int
	_, _ = fmt.Sscan(token, &from)
	to := min(from+2, len(all))
	if to < len(all) {
		next = fmt.Sprint(to)
	}
	return all[from:to], next
}

func (c *cluster) ListAgents(_ context.Context, r *apiv1.ListRequest, _ ...grpc.CallOption) (*apiv1.ListAgentsResponse, error) {
	items, next := page(agentViews(), r.GetPageToken())
	return &apiv1.ListAgentsResponse{Items: items, NextPageToken: next}, c.fails
}

func (c *cluster) ListFrameworks(_ context.Context, r *apiv1.ListRequest, _ ...grpc.CallOption) (*apiv1.ListFrameworksResponse, error) {
	items, next := page(frameworkViews(), r.GetPageToken())
	return &apiv1.ListFrameworksResponse{Items: items, NextPageToken: next}, c.fails
}

func (c *cluster) ListTasks(_ context.Context, r *apiv1.ListTasksRequest, _ ...grpc.CallOption) (*apiv1.ListTasksResponse, error) {
	var all []*apiv1.TaskView
	for _, t := range taskViews() {
		if (r.GetAgentId() == "" || r.GetAgentId() == t.GetAgentId()) && (r.GetFrameworkId() == "" || r.GetFrameworkId() == t.GetFrameworkId()) {
			all = append(all, t)
		}
	}
	items, next := page(all, r.GetPageToken())
	return &apiv1.ListTasksResponse{Items: items, NextPageToken: next}, c.fails
}

func (c *cluster) ListOffers(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListOffersResponse, error) {
	return &apiv1.ListOffersResponse{Items: []*apiv1.OfferView{
		{Id: "offer-1-1", AgentId: "agent-1", FrameworkId: "framework-1", Role: "default", Resources: amount("cpus:1")},
	}}, c.fails
}

func (c *cluster) ListRoles(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListRolesResponse, error) {
	return &apiv1.ListRolesResponse{Items: []*apiv1.RoleView{
		{Role: "default", Weight: 1, Allocated: amount("cpus:1;mem:32")},
		{Role: "web", Weight: 2.5, Guarantee: amount("cpus:1"), Limit: amount("cpus:2;mem:64")},
	}}, c.fails
}

// asked notes a change that the cluster is asked for.
func (c *cluster) asked(call string, request proto.Message) (*apiv1.ActionResponse, error) {
	text, err := protojson.Marshal(request)
	if err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	_ = json.Compact(&plain, text) // protojson has written it
	c.said("cluster: %s %s", call, plain.String())
	return &apiv1.ActionResponse{}, c.fails
}

func (c *cluster) RemoveFramework(_ context.Context, r *apiv1.RemoveFrameworkRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("RemoveFramework", r)
}

func (c *cluster) MarkAgent(_ context.Context, r *apiv1.MarkAgentRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("MarkAgent", r)
}

func (c *cluster) SetMaintenance(_ context.Context, r *apiv1.SetMaintenanceRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("SetMaintenance", r)
}

func (c *cluster) Reserve(_ context.Context, r *apiv1.ReserveRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("Reserve", r)
}

func (c *cluster) SetRole(_ context.Context, r *apiv1.SetRoleRequest, _ ...grpc.CallOption) (*apiv1.RoleView, error) {
	_, err := c.asked("SetRole", r)
	return &apiv1.RoleView{}, err
}

// agentFiles answers for the files of tasks as an agent does.
func agentFiles(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/") {
		w.Header().Set("Content-Type", "application/json")
	}
	switch r.URL.Path {
	case "/v1/files/framework-1/my task/", "/v1/files/framework-1/my%20task/", "/v1/files/framework-1/job/", "/v1/files/framework-1/job":
		fmt.Fprint(w, `{"items":[{"name":"data","kind":"folder","modified":"2026-11-27T03:00:00Z"},{"name":"stdout","kind":"file","bytes":11,"modified":"2026-11-27T03:00:00Z"}]}`)
	case "/v1/files/framework-1/my%20task/stdout", "/v1/files/framework-1/job/stdout":
		fmt.Fprint(w, "hello world")
	default:
		http.Error(w, "not_found: no such file "+r.URL.Path+"?"+r.URL.RawQuery, http.StatusNotFound)
	}
}

// world is an operator in front of that cluster.
type world struct {
	t        *testing.T
	operator *Operator
	cluster  *cluster
	lines    []string
}

func newWorld(t *testing.T, open bool) *world {
	w := &world{t: t}
	agent := httptest.NewServer(http.HandlerFunc(agentFiles))
	t.Cleanup(agent.Close)
	w.cluster = &cluster{agent: agent.Listener, news: make(chan *apiv1.WatchResponse), said: func(format string, args ...any) {
		w.lines = append(w.lines, fmt.Sprintf(format, args...))
	}}
	w.operator = New(Config{Address: "10.0.0.9:5050", Open: open, Cluster: func(_ context.Context, token string) (Cluster, error) {
		if token == "wrong" {
			return nil, api.E("join", api.Denied, "", errors.New("no such token"))
		}
		return w.cluster, nil
	}})
	w.operator.began = at.AsTime()
	w.operator.now = func() time.Time { return at.AsTime().Add(time.Minute) }
	return w
}

// ask makes a request, and returns how it was answered.
func (w *world) ask(method, target, body string, header map[string]string) *httptest.ResponseRecorder {
	return w.askAt(w.operator, method, target, body, header)
}

func (w *world) askAt(handler http.Handler, method, target, body string, header map[string]string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(w.t.Context(), method, target, strings.NewReader(body))
	for name, value := range header { // order: of headers
		request.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// call makes a call in both encodings, and returns the answer, which must be the same.
func (w *world) call(text string) string {
	return w.callAt(w.operator, "/master", text, new(masterv1.Call), new(masterv1.Response))
}

// callAgent makes a call of the agents of host-1.
func (w *world) callAgent(text string) string {
	return w.callAt(w.operator.Agent(), "/slave(1)", text, new(agentv1.Call), new(agentv1.Response))
}

func (w *world) callAt(handler http.Handler, prefix, text string, call, one proto.Message) string {
	if err := codec.JSON.Unmarshal([]byte(text), call); err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	binary, err := proto.Marshal(call)
	if err != nil {
		w.t.Fatal(err)
	}
	plain := w.askAt(handler, http.MethodPost, "http://host-1:5051/api/v1", text, map[string]string{"Content-Type": "application/json", "Accept": "application/json"})
	lines := len(w.lines)
	packed := w.askAt(handler, http.MethodPost, "http://host-1:5051"+prefix+"/api/v1", string(binary), map[string]string{"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"})
	if fmt.Sprint(w.lines[:lines]) != fmt.Sprint(w.lines[lines:]) {
		w.t.Errorf("%s: as JSON %q was asked for, as protobuf %q", text, w.lines[:lines], w.lines[lines:])
	}
	w.lines = w.lines[:lines]
	if plain.Code != packed.Code {
		w.t.Errorf("%s: %d as JSON, %d as protobuf", text, plain.Code, packed.Code)
	}
	if plain.Code == http.StatusOK && plain.Body.Len() > 0 {
		other := one.ProtoReflect().New().Interface()
		if err := errors.Join(codec.JSON.Unmarshal(plain.Body.Bytes(), one), proto.Unmarshal(packed.Body.Bytes(), other)); err != nil {
			w.t.Errorf("%s: %v", text, err)
		}
		if !proto.Equal(one, other) {
			w.t.Errorf("%s: the encodings differ:\n%v\n%v", text, one, other)
		}
		if got := packed.Header().Get("Content-Type"); got != "application/x-protobuf" {
			w.t.Errorf("%s: answered with %q", text, got)
		}
	}
	return w.show(plain)
}

func (w *world) show(answer *httptest.ResponseRecorder) string {
	lines := append([]string{fmt.Sprint(answer.Code)}, w.lines...)
	w.lines = nil
	body := strings.TrimSpace(answer.Body.String())
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(body), "", " ") == nil {
		body = pretty.String()
	}
	if body != "" {
		lines = append(lines, body)
	}
	return strings.Join(lines, "\n")
}

// TestAnswers plays the requests in testdata. A line of a block is a call in JSON, or METHOD PATH [BODY].
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			w := newWorld(t, true)
			datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string {
				var said []string
				for line := range strings.SplitSeq(d.Input, "\n") {
					var handler http.Handler = w.operator
					rest, agent := strings.CutPrefix(line, "agent ")
					switch line = rest; {
					case strings.HasPrefix(line, "{") && agent:
						said = append(said, w.callAgent(line))
						continue
					case strings.HasPrefix(line, "{"):
						said = append(said, w.call(line))
						continue
					case agent:
						handler = w.operator.Agent()
					}
					words := strings.SplitN(line, " ", 3)
					body := ""
					if len(words) == 3 {
						body = words[2]
					}
					said = append(said, w.show(w.askAt(handler, words[0], "http://host-1:5051"+words[1], body,
						map[string]string{"Content-Type": "application/x-www-form-urlencoded"})))
				}
				return strings.Join(said, "\n")
			})
		})
	}
}

// TestCallers: nobody is let in without a token, except to what shows nothing; each token has its own connection.
func TestCallers(t *testing.T) {
	w := newWorld(t, false)
	for name := range w.operator.routes { // order: each by itself
		method := http.MethodGet
		if !strings.Contains(w.operator.routes[name].methods, method) {
			method = http.MethodPost
		}
		want := http.StatusUnauthorized
		if w.operator.routes[name].public {
			want = http.StatusOK
		}
		if name == "/redirect" {
			want = http.StatusTemporaryRedirect
		}
		if got := w.ask(method, name, "", nil).Code; got != want {
			t.Errorf("%s without credentials: %d, want %d", name, got, want)
		}
		for _, wrong := range []string{"Basic Og==", "Basic YW5uOndyb25n", "Bearer x"} { // none at all; ann:wrong
			if got := w.ask(method, name, "", map[string]string{"Authorization": wrong}).Code; got != want {
				t.Errorf("%s with %s: %d, want %d", name, wrong, got, want)
			}
		}
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/slaves", nil)
	for i := range 3 * callersMax {
		request.SetBasicAuth("ann", fmt.Sprint("token-", i/2))
		answer := httptest.NewRecorder()
		if w.operator.ServeHTTP(answer, request); answer.Code != http.StatusOK {
			t.Fatalf("%d: %s", answer.Code, answer.Body)
		}
	}
	if len(w.operator.callers) != callersMax {
		t.Errorf("%d connections are kept", len(w.operator.callers))
	}
	if !w.cluster.shut {
		t.Error("no connection was closed")
	}
	w.cluster.fails = wire.Status(api.E("list", api.Denied, "ann", errors.New("she may not")))
	answer := httptest.NewRecorder()
	if w.operator.ServeHTTP(answer, request); answer.Code != http.StatusForbidden {
		t.Errorf("what the masters deny is answered %d", answer.Code)
	}
	w.cluster.fails = wire.Status(api.E("list", api.Unavailable, "", errors.New("no master leads")))
	answer = httptest.NewRecorder()
	if w.operator.ServeHTTP(answer, request); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("without a leader: %d", answer.Code)
	}
}

// TestHostile: what is no call is refused, whatever it is.
func TestHostile(t *testing.T) {
	w := newWorld(t, true)
	asJSON := map[string]string{"Content-Type": "application/json"}
	for _, c := range []struct {
		body   string
		header map[string]string
		want   int
	}{
		{"{}", nil, http.StatusBadRequest},
		{"{}", map[string]string{"Content-Type": "text/plain"}, http.StatusUnsupportedMediaType},
		{"{}", map[string]string{"Content-Type": "application/json", "Accept": "text/html"}, http.StatusNotAcceptable},
		{"{", asJSON, http.StatusBadRequest},
		{"{}", asJSON, http.StatusNotImplemented},
		{strings.Repeat(" ", callBytesMax+1), asJSON, http.StatusRequestEntityTooLarge},
		{`{"type":"TEARDOWN"}`, asJSON, http.StatusBadRequest},
	} {
		if got := w.ask(http.MethodPost, "/api/v1", c.body, c.header).Code; got != c.want {
			t.Errorf("%.40q %v: %d, want %d", c.body, c.header, got, c.want)
		}
	}
}

// FuzzCall: whatever is sent in place of a call, it is answered.
func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"type":"GET_STATE"}`), true)
	f.Add([]byte(`{"type":"RESERVE_RESOURCES","reserve_resources":{"agent_id":{"value":"agent-1"},"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":1},"role":"web"}]}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		w := newWorld(t, true)
		close(w.cluster.news)
		encoding := codec.Protobuf
		if asJSON {
			encoding = codec.JSON
		}
		answer := w.ask(http.MethodPost, "/api/v1", string(body), map[string]string{"Content-Type": encoding.ContentType()})
		if answer.Code == http.StatusInternalServerError {
			t.Errorf("answered %d: %s", answer.Code, answer.Body)
		}
	})
}

// TestSubscribe: the state comes first, then each change, with heartbeats between.
func TestSubscribe(t *testing.T) {
	for name, encoding := range map[string]codec.Encoding{"json": codec.JSON, "protobuf": codec.Protobuf} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { subscribed(t, encoding) })
		})
	}
}

func subscribed(t *testing.T, encoding codec.Encoding) {
	c := &cluster{news: make(chan *apiv1.WatchResponse)}
	o := New(Config{Open: true, Cluster: func(context.Context, string) (Cluster, error) { return c, nil }})
	body, err := encoding.Marshal(&masterv1.Call{Type: masterv1.Call_SUBSCRIBE.Enum()})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1", bytes.NewReader(body))
	request.Header.Set("Content-Type", encoding.ContentType())
	request.Header.Set("Accept", encoding.ContentType())
	stream, writes := io.Pipe()
	records := codec.NewRecordReader(stream, 1<<20)
	go func() {
		o.ServeHTTP(pipe{http.Header{}, writes}, request)
		writes.Close()
	}()
	next := func(want masterv1.Event_Type) *masterv1.Event {
		t.Helper()
		record, err := records.Next()
		if err != nil {
			t.Fatal(err)
		}
		event := new(masterv1.Event)
		if err := encoding.Unmarshal(record, event); err != nil || event.GetType() != want {
			t.Fatalf("%v, %v, want %v", event, err, want)
		}
		return event
	}
	agent, framework, task := agentViews()[0], frameworkViews()[0], taskViews()[0]
	c.news <- &apiv1.WatchResponse{Items: []*apiv1.Change{{View: &apiv1.Change_Agent{Agent: agent}}}}
	c.news <- &apiv1.WatchResponse{Complete: true}
	first := next(masterv1.Event_SUBSCRIBED).GetSubscribed()
	if first.GetHeartbeatIntervalSeconds() != 15 || len(first.GetGetState().GetGetAgents().GetAgents()) != 1 {
		t.Errorf("subscribed with %v", first)
	}
	next(masterv1.Event_HEARTBEAT)
	next(masterv1.Event_HEARTBEAT) // 15 s later
	change := func(change *apiv1.Change) {
		c.news <- &apiv1.WatchResponse{Items: []*apiv1.Change{change}, Complete: true}
	}
	change(&apiv1.Change{View: &apiv1.Change_Framework{Framework: framework}})
	next(masterv1.Event_FRAMEWORK_ADDED)
	change(&apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: framework.GetId(), State: "disconnected"}}})
	if f := next(masterv1.Event_FRAMEWORK_UPDATED).GetFrameworkUpdated().GetFramework(); f.GetConnected() {
		t.Error("a framework that has left is connected")
	}
	change(&apiv1.Change{View: &apiv1.Change_Task{Task: task}})
	next(masterv1.Event_TASK_ADDED)
	change(&apiv1.Change{View: &apiv1.Change_Task{Task: task}}) // figures only
	ended := proto.CloneOf(task)
	ended.State = "FINISHED"
	change(&apiv1.Change{View: &apiv1.Change_Task{Task: ended}})
	if u := next(masterv1.Event_TASK_UPDATED).GetTaskUpdated(); u.GetState().String() != "TASK_FINISHED" || u.GetStatus().GetTaskId().GetValue() != "my task" {
		t.Errorf("updated: %v", u)
	}
	change(&apiv1.Change{Removed: "task/framework-1/my%20task"})
	change(&apiv1.Change{View: &apiv1.Change_Agent{Agent: &apiv1.AgentView{Id: "agent-1", State: "DISCONNECTED"}}}) // it is expected back
	change(&apiv1.Change{View: &apiv1.Change_Agent{Agent: agent}})
	next(masterv1.Event_AGENT_ADDED)
	change(&apiv1.Change{Removed: "agent/agent-1"})
	next(masterv1.Event_AGENT_REMOVED)
	change(&apiv1.Change{Removed: "framework/framework-1"})
	next(masterv1.Event_FRAMEWORK_REMOVED)
	c.news <- &apiv1.WatchResponse{Missed: "the leader has changed"}
	if _, err := records.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("what was missed ends the stream; %v", err)
	}
}

// pipe is a response that is read while it is written.
type pipe struct {
	header http.Header
	*io.PipeWriter
}

func (p pipe) Header() http.Header { return p.header }
func (p pipe) WriteHeader(int)     {}
func (p pipe) Flush()              {}
