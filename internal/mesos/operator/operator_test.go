package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/mesos/codec"
	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	"github.com/tenderhq/tender/internal/wire"
)

// agentFiles answers for the files of tasks as an agent does.
func agentFiles(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/") {
		w.Header().Set("Content-Type", "application/json")
	}
	switch r.URL.Path {
	case "/v1/files/framework-1/my task/", "/v1/files/framework-1/my%20task/", "/v1/files/framework-1/job/", "/v1/files/framework-1/job":
		fmt.Fprint(w, `{"items":[{"name":"data","kind":"folder","modified":"2026-11-27T03:00:00Z"},{"name":"stdout","kind":"file","bytes":11,"modified":"2026-11-27T03:00:00Z"}]}`)
	case "/v1/files/framework-1/job/data":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"items":[]}`)
	case "/v1/files/framework-1/job/large":
		if r.Header.Get("Range") == "" {
			http.Error(w, "all of a large file is asked for", http.StatusInternalServerError)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat(".", 1<<20)+"end"))
	case "/v1/files/framework-1/job/stderr":
		http.Error(w, "agent.files: stderr: invalid: what is kept of it begins at 65536", http.StatusBadRequest)
	case "/v1/files/framework-1/my%20task/stdout", "/v1/files/framework-1/job/stdout":
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("hello world"))
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

// TestExecutorsOfASnapshot: a snapshot has the executor of each task that it has, also of one that has ended meanwhile.
func TestExecutorsOfASnapshot(t *testing.T) {
	s := &state{tasks: taskViews(), executors: []*apiv1.ExecutorView{{Id: "command", FrameworkId: "framework-1", AgentId: "agent-4"}}}
	s.addExecutorsOfTasks()
	if shown := s.getExecutors().GetExecutors(); len(s.executors) != 2 || len(shown) != 1 || shown[0].GetExecutorInfo().GetExecutorId().GetValue() != "old" {
		t.Errorf("%v are shown of %v", shown, s.executors)
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
