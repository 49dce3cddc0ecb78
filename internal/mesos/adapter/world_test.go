package adapter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/envelope"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	executorv1 "github.com/tenderhq/tender/internal/mesos/v1/executor"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/wire"
)

// world is an adapter between an agent and an old executor that the story plays, in memory and in virtual time.
type world struct {
	t        *testing.T
	encoding codec.Encoding
	port     *bufconn.Listener
	client   *http.Client
	leave    context.CancelFunc // ends the old executor's stream
	program  *program

	mu      sync.Mutex
	said    []string
	settled int    // how much of said has its order
	agent   *agent // nil: it is down
	held    []protocol.ExecutorStatus
	holding bool // statuses are not acknowledged
}

func newWorld(t *testing.T, encoding codec.Encoding) *world {
	w := &world{t: t, encoding: encoding, port: bufconn.Listen(1 << 16)}
	w.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.port.DialContext(ctx) },
	}}
	w.startAgent()
	config := Config{
		Executor: executor.Config{Framework: "framework-1", ID: "x", Token: "secret", Sandbox: "/sandbox", Dialer: w.dial},
		Listen:   func() (net.Listener, error) { return w.port, nil },
		Begin:    w.begin,
		Environ:  []string{"PATH=/bin", "TENDER_EXECUTOR_TOKEN_FD=4", "TENDER_EXECUTOR_SANDBOX=/sandbox", "MESOS_CHECKPOINT=1"},
		Log:      new(zerolog.Nop()),
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := Serve(ctx, config); err != nil {
			w.say("adapter ended: %v", err)
		} else {
			w.say("adapter ended")
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		w.stopAgent()
		w.client.CloseIdleConnections()
	})
	return w
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

// settle waits until nothing more happens, and orders what has: who hears what first is left to chance.
func (w *world) settle() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.said[w.settled:], func(a, b string) int {
		speaker := func(line string) string { name, _, _ := strings.Cut(line, " "); return name }
		return cmp.Compare(speaker(a), speaker(b))
	})
	w.settled = len(w.said)
}

// Said returns what has happened since the last call.
func (w *world) Said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled = 0
	said := strings.Join(w.said, "\n")
	w.said = nil
	return said
}

// agent is the agent's side of the adapter's session.
type agent struct {
	apiv1.UnimplementedExecutorServiceServer
	w        *world
	listener *bufconn.Listener
	server   *grpc.Server
	stream   grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents] // guarded by the world's mu
}

func (w *world) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	on := w.agent
	w.mu.Unlock()
	if on == nil {
		return nil, errors.New("connection refused")
	}
	return on.listener.DialContext(ctx)
}

func (w *world) startAgent() {
	a := &agent{w: w, listener: bufconn.Listen(1 << 16), server: grpc.NewServer()}
	apiv1.RegisterExecutorServiceServer(a.server, a)
	w.mu.Lock()
	w.agent = a
	w.mu.Unlock()
	go func() { _ = a.server.Serve(a.listener) }() // until stopAgent
}

func (w *world) stopAgent() {
	w.mu.Lock()
	a := w.agent
	w.agent = nil
	w.mu.Unlock()
	if a != nil {
		a.server.Stop()
		a.listener.Close()
	}
}

func (a *agent) Session(stream grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the adapter has left
		}
		calls, err := wire.ExecutorCallsAfter(0, message)
		if err != nil {
			a.w.t.Errorf("the adapter sent what an agent refuses: %v", err)
		}
		for _, call := range calls {
			switch call := call.(type) {
			case protocol.SubscribeExecutor:
				a.w.mu.Lock()
				a.stream = stream
				a.w.mu.Unlock()
				a.w.tell(protocol.ExecutorSubscribed{Agent: "agent-1", Hostname: "host", RecoveryTimeout: 15 * time.Minute})
				for _, status := range call.Unacknowledged {
					a.w.hear(status)
				}
			case protocol.ExecutorStatus:
				a.w.hear(call)
			case protocol.ExecutorHeartbeat:
			case protocol.ExecutorMessage:
				a.w.say("agent: message %s", call.Data)
			}
		}
	}
}

// hear notes a status, and acknowledges it unless the story holds that back.
func (w *world) hear(status protocol.ExecutorStatus) {
	if len(status.Data) == 0 {
		message, _, _ := strings.Cut(status.Message, ": proto") // what follows is not the same in each build
		w.say("agent: %s %v %v %q", status.Task, status.State, status.Reason, message)
		return
	}
	said := new(mesosv1.TaskStatus)
	if err := proto.Unmarshal(status.Data, said); err != nil {
		w.t.Errorf("status %s %v has no TaskStatus in its data: %v", status.Task, status.State, err)
	}
	line := fmt.Sprintf("agent: %s %v", status.Task, status.State)
	if status.Reason != api.ReasonNone {
		line += " " + status.Reason.String()
	}
	line += " = " + said.GetTaskId().GetValue() + " " + said.GetState().String()
	if said.Reason != nil {
		line += " " + said.GetReason().String()
	}
	if said.GetMessage() != "" {
		line += fmt.Sprintf(" %q", said.GetMessage())
	}
	if said.GetSource() == mesosv1.TaskStatus_SOURCE_EXECUTOR {
		line += " uuid=" + strings.TrimRight(string(said.GetUuid()), ".")
	}
	for name, missing := range map[string]bool{
		"agent": said.GetAgentId().GetValue() != "agent-1", "uuid": len(said.GetUuid()) != 16, "executor": said.GetExecutorId().GetValue() != "old",
		"timestamp": said.Timestamp == nil, "container": said.GetContainerStatus().GetContainerId().GetValue() != "framework-1.x",
		"network": len(said.GetContainerStatus().GetNetworkInfos()) != 1,
	} {
		if missing {
			w.t.Errorf("%s: its %s is not filled in: %v", line, name, said)
		}
	}
	w.say("%s", line)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holding {
		w.held = append(w.held, status)
		return
	}
	w.tellLocked(protocol.ExecutorAcknowledged{Task: status.Task, Number: status.Number})
}

func (w *world) tell(events ...protocol.ExecutorEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellLocked(events...)
}

func (w *world) tellLocked(events ...protocol.ExecutorEvent) {
	if w.agent != nil && w.agent.stream != nil {
		_ = w.agent.stream.Send(wire.ExecutorEventsToProto(events)) // an adapter that has gone hears nothing
	}
}

// program is the old executor as a process.
type program struct {
	w    *world
	code chan int
	once sync.Once
}

func (w *world) begin(ctx context.Context, command Command) (Program, error) {
	w.say("program: %q", command.Argv)
	for _, uri := range command.URIs {
		w.say("program: fetches %s executable=%v extract=%v", uri.Source, uri.Executable, uri.Extract)
	}
	for _, variable := range command.Env {
		w.say("program: %s", variable)
	}
	if slices.Contains(command.Argv, "missing") {
		return nil, errors.New("no such program")
	}
	if slices.Contains(command.Argv, "slow") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p := &program{w: w, code: make(chan int, 1)}
	w.mu.Lock()
	w.program = p
	w.mu.Unlock()
	return p, nil
}

func (p *program) PID() int  { return 4711 }
func (p *program) Wait() int { return <-p.code }
func (p *program) Kill()     { p.once.Do(func() { p.w.say("program: killed"); p.exit(137) }) }

// exit ends the program, and with it its connections.
func (p *program) exit(code int) {
	if p.w.leave != nil {
		p.w.leave()
	}
	p.w.client.CloseIdleConnections()
	p.code <- code
}

// Play plays one line of a story.
func (w *world) Play(t *testing.T, line transcript.Line) {
	word := func(i int) string {
		if i < len(line.Words) {
			return line.Words[i]
		}
		return ""
	}
	switch line.Verb {
	case "launch":
		w.tell(w.launch(word(0), line.Named))
	case "kill":
		w.tell(protocol.ExecutorKill{Task: api.TaskID("tender-" + word(0)), Grace: duration(t, line.Named["grace"])})
	case "message":
		w.tell(protocol.ExecutorMessage{Data: []byte(word(0))})
	case "shutdown":
		w.tell(protocol.ExecutorShutdown{Grace: duration(t, line.Named["grace"])})
	case "agent":
		w.playAgent(t, word(0))
	case "subscribe":
		w.subscribe(line.Named)
	case "leave":
		w.leave()
	case "update":
		w.post(w.call(executorv1.Call_UPDATE, func(call *executorv1.Call) {
			call.Update = &executorv1.Call_Update{Status: w.status(word(0), word(1), line.Named)}
		}))
	case "say":
		w.post(w.call(executorv1.Call_MESSAGE, func(call *executorv1.Call) { call.Message = &executorv1.Call_Message{Data: []byte(word(0))} }))
	case "call":
		w.post(w.call(executorv1.Call_Type(executorv1.Call_Type_value[word(0)]), func(call *executorv1.Call) {
			call.FrameworkId.Value = proto.String(cmp.Or(line.Named["framework"], "old-framework"))
			call.ExecutorId.Value = proto.String(cmp.Or(line.Named["executor"], "old"))
		}))
	case "http":
		w.http(line)
	case "exit":
		code, _ := strconv.Atoi(word(0))
		w.program.once.Do(func() { w.program.exit(code) })
	case "tick":
		<-time.After(duration(t, word(0)))
	default:
		t.Fatalf("no such line: %s", line.Verb)
	}
	w.settle()
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(cmp.Or(text, "0s"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (w *world) playAgent(t *testing.T, what string) {
	switch what {
	case "down":
		w.stopAgent()
	case "up":
		w.startAgent()
	case "holds":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holding = true
	case "acknowledges":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holding = false
		for _, status := range w.held {
			w.tellLocked(protocol.ExecutorAcknowledged{Task: status.Task, Number: status.Number})
		}
		w.held = nil
	default:
		t.Fatalf("an agent does not %s", what)
	}
}

func info(name string) *mesosv1.TaskInfo {
	return &mesosv1.TaskInfo{
		Name: proto.String(name), TaskId: &mesosv1.TaskID{Value: proto.String(name)}, AgentId: &mesosv1.AgentID{Value: proto.String("agent-1")},
		Data: []byte("\x00data of " + name),
	}
}

func (w *world) launch(name string, named map[string]string) protocol.ExecutorLaunch {
	task := info(name)
	command := &mesosv1.CommandInfo{Value: proto.String(cmp.Or(named["command"], "./run"))}
	if named["argv"] != "" {
		command.Shell, command.Value, command.Arguments = proto.Bool(false), proto.String("./prog"), strings.Split(named["argv"], ",")
	}
	if named["uri"] != "" {
		command.Uris = []*mesosv1.CommandInfo_URI{{Value: proto.String("http://host/a.tgz?x=1")}, {Value: proto.String(named["uri"]), Executable: proto.Bool(true)}}
		command.Environment = &mesosv1.Environment{Variables: []*mesosv1.Environment_Variable{{Name: proto.String("OWN"), Value: proto.String("x y")}}}
	}
	task.Executor = &mesosv1.ExecutorInfo{ExecutorId: &mesosv1.ExecutorID{Value: proto.String("old")}, Command: command, Data: []byte("of the executor")}
	launch := &envelope.Launch{Task: task, Framework: &mesosv1.FrameworkInfo{
		User: proto.String("ann"), Name: proto.String("old"), Id: &mesosv1.FrameworkID{Value: proto.String("old-framework")},
		Checkpoint: proto.Bool(named["checkpoint"] != ""),
	}}
	if named["group"] != "" {
		launch.Group = strings.Split(named["group"], ",")
	}
	data, err := proto.Marshal(launch)
	if err != nil {
		w.t.Fatal(err)
	}
	if named["bad"] != "" {
		data = []byte(named["bad"])
	}
	return protocol.ExecutorLaunch{Task: api.Task{ID: api.TaskID("tender-" + name), Data: data, KillGrace: duration(w.t, named["grace"])}, Sandbox: "/sandbox/tasks/" + name}
}

// status is an update as an old executor sends it: it names neither the agent nor the time.
func (w *world) status(name, state string, named map[string]string) *mesosv1.TaskStatus {
	uuid := []byte(cmp.Or(named["uuid"], name+"-"+state) + strings.Repeat(".", 16))[:16]
	status := &mesosv1.TaskStatus{
		TaskId: &mesosv1.TaskID{Value: &name}, State: mesosv1.TaskState(mesosv1.TaskState_value["TASK_"+state]).Enum(),
		Uuid: uuid, Source: mesosv1.TaskStatus_SOURCE_EXECUTOR.Enum(),
	}
	switch named["wrong"] {
	case "uuid":
		status.Uuid = []byte("short")
	case "none":
		status.Uuid = nil
	case "source":
		status.Source = mesosv1.TaskStatus_SOURCE_AGENT.Enum()
	case "executor":
		status.ExecutorId = &mesosv1.ExecutorID{Value: proto.String("other")}
	case "large":
		status.Data = make([]byte, api.StatusDataBytesMax+1)
	}
	return status
}

func (w *world) call(kind executorv1.Call_Type, fill func(*executorv1.Call)) *executorv1.Call {
	call := &executorv1.Call{
		Type: kind.Enum(), FrameworkId: &mesosv1.FrameworkID{Value: proto.String("old-framework")}, ExecutorId: &mesosv1.ExecutorID{Value: proto.String("old")},
	}
	fill(call)
	return call
}

func (w *world) request(ctx context.Context, body []byte) *http.Request {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/slave(1)/api/v1/executor", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Content-Type", w.encoding.ContentType())
	request.Header.Set("Accept", w.encoding.ContentType())
	return request
}

// post sends a call, and says how it was answered, which may be later.
func (w *world) post(call *executorv1.Call) {
	body, err := w.encoding.Marshal(call)
	if err != nil {
		w.t.Fatal(err)
	}
	go w.ask(w.request(context.Background(), body))
}

func (w *world) ask(request *http.Request) {
	response, err := w.client.Do(request)
	if err != nil {
		w.say("answer: none")
		return
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	said, _, _ := strings.Cut(string(text), "proto:") // what follows is of the encoding
	said, _, _ = strings.Cut(said, "unexpected EOF")
	w.say("answer: %s", strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, said)))
}

// http sends something that is no call.
func (w *world) http(line transcript.Line) {
	request := w.request(context.Background(), []byte(line.Named["body"]))
	if size, err := strconv.Atoi(line.Named["size"]); err == nil {
		request = w.request(context.Background(), make([]byte, size))
	}
	request.Method = line.Words[0]
	request.URL.Path = line.Words[1]
	for _, name := range []string{"Content-Type", "Accept"} {
		if value, is := line.Named[name]; is {
			request.Header.Del(name)
			if value != "" {
				request.Header.Set(name, value)
			}
		}
	}
	go w.ask(request)
}

// subscribe opens the old executor's stream, and says each event.
func (w *world) subscribe(named map[string]string) {
	call := w.call(executorv1.Call_SUBSCRIBE, func(call *executorv1.Call) {
		call.Subscribe = new(executorv1.Call_Subscribe)
		for _, name := range strings.FieldsFunc(named["tasks"], func(r rune) bool { return r == ',' }) {
			call.Subscribe.UnacknowledgedTasks = append(call.Subscribe.UnacknowledgedTasks, info(name))
		}
		for _, update := range strings.FieldsFunc(named["updates"], func(r rune) bool { return r == ',' }) {
			name, state, _ := strings.Cut(update, "-")
			call.Subscribe.UnacknowledgedUpdates = append(call.Subscribe.UnacknowledgedUpdates, &executorv1.Call_Update{Status: w.status(name, state, nil)})
		}
	})
	body, err := w.encoding.Marshal(call)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	w.leave = leave
	go func() {
		response, err := w.client.Do(w.request(ctx, body))
		if err != nil {
			w.say("answer: none")
			return
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(response.Body)
			w.say("answer: %s", strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, text)))
			return
		}
		if got := response.Header.Get("Content-Type"); got != w.encoding.ContentType() || response.ContentLength >= 0 {
			w.t.Errorf("a stream of %q with length %d", got, response.ContentLength)
		}
		records := codec.NewRecordReader(response.Body, 1<<20)
		for {
			record, err := records.Next()
			if err != nil {
				w.say("stream: it ends")
				return
			}
			event := new(executorv1.Event)
			if err := w.encoding.Unmarshal(record, event); err != nil {
				w.t.Errorf("an event can't be read: %v", err)
			}
			w.say("executor: %s", show(event))
		}
	}()
}

// show writes an event in a line.
func show(event *executorv1.Event) string {
	line := event.GetType().String()
	switch event.GetType() {
	case executorv1.Event_SUBSCRIBED:
		of := event.GetSubscribed()
		line += fmt.Sprintf(" executor=%s of %s, data %q, framework=%s on %s at %s in %s", of.GetExecutorInfo().GetExecutorId().GetValue(),
			of.GetExecutorInfo().GetFrameworkId().GetValue(), of.GetExecutorInfo().GetData(), of.GetFrameworkInfo().GetId().GetValue(),
			of.GetAgentInfo().GetId().GetValue(), of.GetAgentInfo().GetHostname(), of.GetContainerId().GetValue())
	case executorv1.Event_LAUNCH:
		line += fmt.Sprintf(" %s, data %q", event.GetLaunch().GetTask().GetTaskId().GetValue(), event.GetLaunch().GetTask().GetData())
	case executorv1.Event_LAUNCH_GROUP:
		for _, task := range event.GetLaunchGroup().GetTaskGroup().GetTasks() {
			line += " " + task.GetTaskId().GetValue()
		}
	case executorv1.Event_KILL:
		line += " " + event.GetKill().GetTaskId().GetValue()
		if policy := event.GetKill().GetKillPolicy(); policy != nil {
			line += fmt.Sprintf(" within %v", time.Duration(policy.GetGracePeriod().GetNanoseconds()))
		}
	case executorv1.Event_ACKNOWLEDGED:
		line += " " + event.GetAcknowledged().GetTaskId().GetValue() + " " + strings.TrimRight(string(event.GetAcknowledged().GetUuid()), ".")
	case executorv1.Event_MESSAGE:
		line += " " + string(event.GetMessage().GetData())
	}
	return line
}
