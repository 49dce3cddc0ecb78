package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/mesos"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/envelope"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	executorv1 "github.com/tenderhq/tender/internal/mesos/v1/executor"
)

const (
	// callBytesMax bounds one call: SUBSCRIBE repeats what is not acknowledged. A larger one is answered 413.
	callBytesMax = 16 << 20
	// headerTimeout is how long a client may take to send the header of a call.
	headerTimeout = 30 * time.Second
	// drainTimeout is how long what the old executor has sent before its end is waited for.
	drainTimeout = time.Second
)

// server is the adapter's HTTP server.
type server struct {
	http *http.Server
	done chan struct{}
}

// serveHTTP serves the old executor.
func (a *adapter) serveHTTP(listener net.Listener) *server {
	s := &server{done: make(chan struct{}), http: &http.Server{
		Handler: a.routes(), ReadHeaderTimeout: headerTimeout, ConnContext: withStranger, ConnState: a.connections.note,
	}}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.config.Log.Error().Err(err).Msg("the executor can't be served")
			a.stop()
		}
	}()
	return s
}

// close ends all connections, and returns when no handler runs any more.
func (s *server) close() {
	_ = s.http.Close()
	<-s.done
}

// connections counts the connections of the old executor.
type connections struct {
	mu    sync.Mutex
	open  map[net.Conn]bool
	empty chan struct{} // closed when none is open; nil: nobody waits
}

func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.open == nil {
			c.open = make(map[net.Conn]bool)
		}
		c.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
	if len(c.open) == 0 && c.empty != nil {
		close(c.empty)
		c.empty = nil
	}
}

// drain waits until what the old executor has sent before its end was read: its connections are closed then. Programs
// that it has left behind may hold some open.
func (a *adapter) drain() {
	c := &a.connections
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return
	}
	empty := make(chan struct{})
	c.empty = empty
	c.mu.Unlock()
	select {
	case <-empty:
	case <-time.After(drainTimeout):
	}
}

// strangerKey marks the context of a connection that belongs to another user.
type strangerKey struct{}

// withStranger finds out whose process has connected. The port is open to every user of the machine, and old executors
// prove nothing.
func withStranger(ctx context.Context, conn net.Conn) context.Context {
	if err := checkPeer(conn); err != nil {
		return context.WithValue(ctx, strangerKey{}, err)
	}
	return ctx
}

// routes are what an agent of Mesos answers to its executors, also with the prefix that libprocess gives an agent.
func (a *adapter) routes() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/slave(1)"} {
		mux.HandleFunc(prefix+"/api/v1/executor", a.serveCall)
		mux.HandleFunc("GET "+prefix+"/state", a.serveState)
		mux.HandleFunc("GET "+prefix+"/health", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET "+prefix+"/version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]any{"version": mesos.Version}) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why, stranger := r.Context().Value(strangerKey{}).(error); stranger {
			http.Error(w, why.Error(), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", codec.JSON.ContentType())
	_ = json.NewEncoder(w).Encode(value) // a client that has gone needs no answer
}

// serveState answers what an executor may want to know of its agent.
func (a *adapter) serveState(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	agent, framework, info := a.whose.agent, a.whose.framework, a.whose.executor
	a.mu.Unlock()
	shown := func(m proto.Message) json.RawMessage {
		text, err := codec.JSON.Marshal(m)
		if err != nil {
			return json.RawMessage("{}")
		}
		return text
	}
	writeJSON(w, map[string]any{
		"version": mesos.Version, "id": agent.GetId().GetValue(), "hostname": agent.GetHostname(), "pid": "slave(1)@" + a.address,
		"attributes": map[string]string{}, "flags": map[string]string{},
		"frameworks": []any{map[string]any{
			"id": framework.GetId().GetValue(), "name": framework.GetName(), "user": framework.GetUser(), "role": framework.GetRole(),
			"roles": framework.GetRoles(), "checkpoint": framework.GetCheckpoint(), "framework_info": shown(framework),
			"executors": []any{map[string]any{
				"id": info.GetExecutorId().GetValue(), "name": info.GetName(), "source": info.GetSource(), "container": a.container().GetValue(),
				"directory": a.config.Executor.Sandbox,
			}},
		}},
	})
}

// serveCall answers a call of the old executor, as Mesos's agent does.
func (a *adapter) serveCall(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "Expecting 'POST', received '"+r.Method+"'", http.StatusMethodNotAllowed)
		return
	}
	encoding, body, err := codec.ReadBody(w, r, callBytesMax)
	if refused := (*codec.Refusal)(nil); errors.As(err, &refused) {
		http.Error(w, refused.Text, refused.Code)
		return
	}
	call := new(executorv1.Call)
	if err = encoding.Unmarshal(body, call); err == nil {
		err = a.checkCall(call)
	}
	if err != nil {
		http.Error(w, "Failed to validate executor::Call: "+err.Error(), http.StatusBadRequest)
		return
	}
	a.answerCall(w, r, call)
}

// answerCall does what a valid call asks for.
func (a *adapter) answerCall(w http.ResponseWriter, r *http.Request, call *executorv1.Call) {
	var err error
	switch call.GetType() {
	case executorv1.Call_SUBSCRIBE:
		a.serveSubscribe(w, r, call.GetSubscribe())
		return
	case executorv1.Call_HEARTBEAT:
	case executorv1.Call_UPDATE, executorv1.Call_MESSAGE:
		if !a.hasSubscribed() {
			http.Error(w, "Executor is not subscribed", http.StatusForbidden)
			return
		}
		if call.GetType() == executorv1.Call_UPDATE {
			err = a.takeUpdate(r.Context(), call.GetUpdate().GetStatus())
		} else {
			a.passMessage(call.GetMessage().GetData())
		}
	default:
		http.Error(w, "Received unimplemented call", http.StatusNotImplemented)
		return
	}
	switch {
	case errors.Is(err, errRefused):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil: // it waited for the agent, and somebody has gone
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (a *adapter) hasSubscribed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.subscribed
}

// passMessage sends bytes to the scheduler, at most once, as Mesos does.
func (a *adapter) passMessage(data []byte) {
	a.mu.Lock()
	by := a.whose.task
	a.mu.Unlock()
	if err := by.Message(data); err != nil {
		a.config.Log.Warn().Err(err).Msg("a message of the executor is lost")
	}
}

// serveSubscribe begins the stream of events.
func (a *adapter) serveSubscribe(w http.ResponseWriter, r *http.Request, call *executorv1.Call_Subscribe) {
	encoding, ok := codec.AnswerEncoding(r.Header)
	if !ok {
		http.Error(w, "Expecting 'Accept' to allow application/json or application/x-protobuf", http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", encoding.ContentType())
	w.WriteHeader(http.StatusOK)
	if http.NewResponseController(w).Flush() != nil {
		return // it has gone
	}
	a.write(a.subscribe(call, encoding), w, r)
}

// checkCall refuses what Mesos's agent refuses. The old executor is known from the first task on.
func (a *adapter) checkCall(call *executorv1.Call) error {
	a.mu.Lock()
	info, framework := a.whose.executor, a.whose.framework
	a.mu.Unlock()
	switch {
	case call.GetFrameworkId().GetValue() != framework.GetId().GetValue():
		return fmt.Errorf("Framework '%s' cannot be found", call.GetFrameworkId().GetValue()) //nolint:staticcheck // Mesos's words
	case call.GetExecutorId().GetValue() != info.GetExecutorId().GetValue():
		return fmt.Errorf("Executor '%s' cannot be found", call.GetExecutorId().GetValue()) //nolint:staticcheck // Mesos's words
	}
	switch call.GetType() {
	case executorv1.Call_SUBSCRIBE:
		if call.GetSubscribe() == nil {
			return errors.New("Expecting 'subscribe' to be present") //nolint:staticcheck // Mesos's words
		}
	case executorv1.Call_UPDATE:
		if call.GetUpdate() == nil {
			return errors.New("Expecting 'update' to be present") //nolint:staticcheck // Mesos's words
		}
		return checkStatus(call.GetUpdate().GetStatus(), call.GetExecutorId().GetValue())
	case executorv1.Call_MESSAGE:
		if call.GetMessage() == nil {
			return errors.New("Expecting 'message' to be present") //nolint:staticcheck // Mesos's words
		}
		if size := len(call.GetMessage().GetData()); size > api.TaskBytesMax {
			return fmt.Errorf("the message has %d bytes, at most %d are allowed", size, api.TaskBytesMax)
		}
	}
	return nil
}

// uuidBytes is how long the identity of an update is.
const uuidBytes = 16

func checkStatus(status *mesosv1.TaskStatus, id string) error {
	switch {
	case status.Uuid == nil:
		return errors.New("Expecting 'uuid' to be present") //nolint:staticcheck // Mesos's words
	case len(status.GetUuid()) != uuidBytes:
		return fmt.Errorf("a uuid has %d bytes, not %d", uuidBytes, len(status.GetUuid()))
	case status.ExecutorId != nil && status.GetExecutorId().GetValue() != id:
		return fmt.Errorf("ExecutorID in Call: %s does not match ExecutorID in TaskStatus: %s", id, status.GetExecutorId().GetValue())
	case status.GetSource() != mesosv1.TaskStatus_SOURCE_EXECUTOR:
		return fmt.Errorf("Received Call from executor %s with invalid source, expecting 'SOURCE_EXECUTOR'", id) //nolint:staticcheck // Mesos's words
	case status.GetState() == mesosv1.TaskState_TASK_STAGING:
		return fmt.Errorf("Received TASK_STAGING from executor %s, which is not allowed", id) //nolint:staticcheck // Mesos's words
	}
	return nil
}

// whoseIs reads of the first task whose executor this is. The agent that it reaches is the adapter.
func (a *adapter) whoseIs(given *executor.Task, launch *envelope.Launch) whose {
	w := whose{
		executor: launch.GetTask().GetExecutor(), framework: launch.GetFramework(), task: given,
		agent: &mesosv1.AgentInfo{Hostname: proto.String(given.Hostname), Id: launch.GetTask().GetAgentId()},
	}
	w.executor.FrameworkId = w.framework.GetId()
	if _, text, err := net.SplitHostPort(a.address); err == nil {
		var port int32
		if _, err := fmt.Sscan(text, &port); err == nil {
			w.agent.Port = &port
		}
	}
	return w
}

// container names the container of the old executor: its framework and it, as an agent has only one of them at a time.
func (a *adapter) container() *mesosv1.ContainerID {
	id := string(a.config.Executor.Framework) + "." + string(a.config.Executor.ID)
	return &mesosv1.ContainerID{Value: proto.String(strings.ReplaceAll(id, "/", "_"))}
}

// machineIP is the first address of the machine that others can reach it by; 127.0.0.1 if it has none.
var machineIP = sync.OnceValue(func() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, address := range addresses {
		if of, is := address.(*net.IPNet); is && of.IP.To4() != nil && of.IP.IsGlobalUnicast() {
			return of.IP.String()
		}
	}
	return "127.0.0.1"
})
