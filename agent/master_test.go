package agent

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/wire"
)

// script is a master that sends what the test tells it to. It answers what every master answers: a registration, a
// report, a heartbeat.
type script struct {
	t       testing.TB
	address string
	server  *grpc.Server
	// refuse, if it is set, ends every stream at once with this error, but only before the time until, if that is set.
	refuse error
	until  time.Time
	// patience is the session timeout that agents are told.
	patience time.Duration
	// gone: an agent that comes back is told that it was marked gone meanwhile (R16).
	gone   atomic.Bool
	silent atomic.Bool // no status is acknowledged
	// hook, if it is set, gets each call; the calls are then not kept.
	hook func(protocol.AgentCall)

	mutex    sync.Mutex
	changed  chan struct{}
	heard    []protocol.AgentCall
	states   map[api.TaskState]map[api.TaskID]bool // which tasks were reported in each state
	line     *line                                 // the stream to the agent that is connected
	session  uint64
	term     api.Term
	launches uint64
}

// newScript serves on loopback until the test ends. The clock is real there, so its session timeout is long: an agent
// that is silent for a while only had no processor.
func newScript(t *testing.T) *script {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveScript(t, listener, time.Hour)
}

func serveScript(t testing.TB, listener net.Listener, patience time.Duration) *script {
	s := &script{
		t: t, address: listener.Addr().String(), patience: patience, changed: make(chan struct{}), term: api.Term{Number: 1},
	}
	sessions := direct.NewServer(api.MessageBytesMax, func(stream grpc.ServerStream) error {
		return s.Session(&grpc.GenericServerStream[apiv1.AgentCalls, apiv1.AgentEvents]{ServerStream: stream})
	})
	s.server = grpc.NewServer(grpc.Creds(sessions.Credentials(insecure.NewCredentials())))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.server.Serve(listener) // Stop ends it
	}()
	t.Cleanup(func() {
		s.server.Stop()
		<-ended
		sessions.Close()
		sessions.Wait()
	})
	return s
}

func (s *script) Session(stream grpc.BidiStreamingServer[apiv1.AgentCalls, apiv1.AgentEvents]) error {
	if s.refuse != nil && (s.until.IsZero() || time.Now().Before(s.until)) {
		return wire.Status(s.refuse)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	out := &line{more: make(chan struct{}, 1), hangup: cancel}
	s.mutex.Lock()
	s.line = out
	s.session++
	s.mutex.Unlock()
	go out.send(ctx, stream)
	go func() {
		defer cancel()
		for {
			message, err := stream.Recv()
			if err != nil {
				return
			}
			calls, err := wire.AgentCallsAfter(0, message)
			if err != nil {
				s.t.Errorf("the agent said something wrong: %v", err)
				return
			}
			for _, call := range calls {
				s.hear(call)
			}
		}
	}()
	<-ctx.Done()
	if s.gone.Load() {
		return wire.Status(api.E("agent.register", api.Removed, "agent-1", errGone))
	}
	return nil
}

var errGone = errors.New("it was marked gone")

// hear answers, and only then lets the test know. So what the test sends next comes after the answer.
func (s *script) hear(call protocol.AgentCall) {
	s.answer(call)
	s.keep(call)
}

func (s *script) answer(call protocol.AgentCall) {
	switch call := call.(type) {
	case protocol.RegisterAgent, protocol.ReregisterAgent:
		if _, again := call.(protocol.ReregisterAgent); again && s.gone.Load() {
			s.sayGone()
			return
		}
		s.gone.Store(false)
		s.say(protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1", HeartbeatInterval: time.Second, SessionTimeout: s.patience})
	case protocol.StatusUpdate:
		if !s.silent.Load() && call.Status.Number > 0 {
			s.say(protocol.AcknowledgeStatus{TaskRef: call.Status.Ref(), Number: call.Status.Number})
		}
	case protocol.AgentHeartbeat:
		s.say(protocol.AgentPong{})
	case protocol.AgentReport:
		if call.Last {
			s.say(protocol.Reported{})
		}
	default: // the others mean nothing here
	}
}

func (s *script) keep(call protocol.AgentCall) {
	if _, status := call.(protocol.StatusUpdate); status && s.hook != nil {
		s.hook(call)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.heard = append(s.heard, call)
	if update, is := call.(protocol.StatusUpdate); is {
		if s.states == nil {
			s.states = map[api.TaskState]map[api.TaskID]bool{}
		}
		if s.states[update.Status.State] == nil {
			s.states[update.Status.State] = map[api.TaskID]bool{}
		}
		s.states[update.Status.State][update.Status.Task] = true
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// say sends events to the agent that is connected.
func (s *script) say(events ...protocol.AgentEvent) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.line.put(wire.AgentEventsToProto(protocol.AgentEvents{Term: s.term, Session: s.session, Events: events}))
}

// sayGone refuses a session as the master does: the event, then the end of the stream.
func (s *script) sayGone() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.line.put(wire.AgentEventsToProto(protocol.AgentEvents{
		Term: s.term, Events: []protocol.AgentEvent{protocol.AgentGone{Why: errGone.Error()}},
	}))
	s.line.put(nil)
}

// launch sends a launch.
func (s *script) launch(task api.Task) { s.say(s.launching(task)) }

func (s *script) launching(task api.Task) protocol.AgentEvent {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.launches++
	return protocol.LaunchTask{
		Task: task, Framework: api.Framework{ID: "f1", Name: "fw", Roles: []api.Role{"default"}}, Role: "default",
		Resources: task.Resources, Number: s.launches,
	}
}

func (s *script) drop() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.line.hangup()
}

// line sends messages in order from a goroutine of its own. If the goroutine that reads from the agent sent them, it
// would wait until the agent reads, and both could wait for ever.
type line struct {
	hangup context.CancelFunc
	more   chan struct{}

	mutex  sync.Mutex
	unsent []*apiv1.AgentEvents
}

// put queues a message; nil ends the stream after the messages before it.
func (l *line) put(message *apiv1.AgentEvents) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.unsent = append(l.unsent, message)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *line) take() []*apiv1.AgentEvents {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	unsent := l.unsent
	l.unsent = nil
	return unsent
}

// send goes on until the stream ends.
func (l *line) send(ctx context.Context, stream grpc.BidiStreamingServer[apiv1.AgentCalls, apiv1.AgentEvents]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.more:
		}
		for _, message := range l.take() {
			if message == nil || stream.Send(message) != nil {
				l.hangup()
				return
			}
		}
	}
}

// hangAfter returns after what time a wait counts as hanging. On a virtual clock a long time costs nothing.
func (s *script) hangAfter() time.Duration {
	if s.patience > time.Minute {
		return hang.After
	}
	return 24 * time.Hour
}

// await waits for a call that matches, among all calls from the first one on.
func await[C protocol.AgentCall](s *script, what string, matches func(C) bool) C {
	s.t.Helper()
	limit := time.NewTimer(s.hangAfter())
	defer limit.Stop()
	for {
		s.mutex.Lock()
		heard, changed := slices.Clone(s.heard), s.changed
		s.mutex.Unlock()
		for _, call := range heard {
			if c, is := call.(C); is && matches(c) {
				return c
			}
		}
		select {
		case <-changed:
		case <-limit.C:
			s.t.Fatalf("%s was not heard, but %d other calls, the last of which are %+v", what, len(heard), heard[max(0, len(heard)-5):])
		}
	}
}

// status waits for a task's status.
func (s *script) status(task api.TaskID, state api.TaskState) api.Status {
	s.t.Helper()
	return await(s, string(task)+" "+state.String(), func(c protocol.StatusUpdate) bool {
		return c.Status.Task == task && c.Status.State == state
	}).Status
}

// count waits until so many tasks were reported in that state since the last call of forget.
func (s *script) count(tasks int, state api.TaskState) {
	s.t.Helper()
	limit := time.NewTimer(s.hangAfter())
	defer limit.Stop()
	for {
		s.mutex.Lock()
		told, changed := len(s.states[state]), s.changed
		s.mutex.Unlock()
		if told >= tasks {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			s.t.Fatalf("%d of %d tasks were said to be %v", told, tasks, state)
		}
	}
}

// shutDown has the executor for commands of f1 end, and returns when it has.
func (s *script) shutDown() {
	s.t.Helper()
	ref := api.ExecutorRef{Framework: "f1", Executor: api.CommandExecutor}
	s.forget()
	s.executorEnds(ref, s.sessions(), func() { s.say(protocol.ShutdownAgentExecutor{ExecutorRef: ref}) })
}

// sessions returns how many sessions there were.
func (s *script) sessions() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.session
}

// executorEnds waits until the agent tells the end of an executor. If the end fell between two sessions, it is the
// report of a later session that shows it. If such a report still names the executor, ask is called again.
func (s *script) executorEnds(ref api.ExecutorRef, session uint64, ask func()) {
	s.t.Helper()
	for {
		ask()
		told := await(s, "end of "+ref.String(), func(call protocol.AgentCall) bool {
			ended, is := call.(protocol.ExecutorEnded)
			report, again := call.(protocol.AgentReport)
			return is && ended.ExecutorRef == ref || again && report.Last && report.Session > session
		})
		report, again := told.(protocol.AgentReport)
		if !again || !slices.ContainsFunc(report.Executors, func(e protocol.ReportedExecutor) bool {
			return e.Framework == ref.Framework && e.Executor.ID == ref.Executor
		}) {
			return
		}
		session = report.Session
	}
}

// forget begins a new list of calls.
func (s *script) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.heard, s.states = nil, nil
}

// all returns all calls.
func (s *script) all() []protocol.AgentCall {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.heard)
}
