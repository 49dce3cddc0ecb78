package executor

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// machine is where a fake agent listens, in memory. The agent can be down.
type machine struct {
	t  *testing.T
	mu sync.Mutex
	on *fakeAgent
}

func (m *machine) dial(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	on := m.on
	m.mu.Unlock()
	if on == nil {
		return nil, errors.New("connection refused")
	}
	return on.listener.DialContext(ctx)
}

// fakeAgent is an agent that the test plays.
type fakeAgent struct {
	apiv1.UnimplementedExecutorServiceServer
	m        *machine
	listener *bufconn.Listener
	server   *grpc.Server
	sessions chan *fakeSession
}

func (m *machine) start() *fakeAgent {
	a := &fakeAgent{m: m, listener: bufconn.Listen(1 << 16), server: grpc.NewServer(), sessions: make(chan *fakeSession)}
	apiv1.RegisterExecutorServiceServer(a.server, a)
	m.mu.Lock()
	m.on = a
	m.mu.Unlock()
	go func() { _ = a.server.Serve(a.listener) }() // until stop
	m.t.Cleanup(a.stop)
	return a
}

func (a *fakeAgent) stop() {
	a.m.mu.Lock()
	if a.m.on == a {
		a.m.on = nil
	}
	a.m.mu.Unlock()
	a.server.Stop()
	a.listener.Close()
}

type fakeSession struct {
	t         *testing.T
	stream    grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]
	subscribe protocol.SubscribeExecutor
	calls     chan protocol.ExecutorCall
	end       chan error
}

func (a *fakeAgent) Session(stream grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]) error {
	s := &fakeSession{t: a.m.t, stream: stream, calls: make(chan protocol.ExecutorCall, 1<<16), end: make(chan error, 1)}
	opened := make(chan struct{})
	go s.read(opened)
	select {
	case <-opened:
	case <-stream.Context().Done():
		return nil
	}
	select {
	case a.sessions <- s:
	case <-stream.Context().Done():
		return nil
	}
	select {
	case err := <-s.end:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

func (s *fakeSession) read(opened chan struct{}) {
	defer close(s.calls)
	for {
		message, err := s.stream.Recv()
		if err != nil {
			return
		}
		calls, err := wire.ExecutorCallsAfter(0, message)
		if err != nil {
			s.t.Errorf("the SDK sent what an agent refuses: %v", err)
		}
		for _, call := range calls {
			switch call := call.(type) {
			case protocol.SubscribeExecutor:
				s.subscribe = call
				close(opened)
			case protocol.ExecutorHeartbeat:
			default:
				s.calls <- call
			}
		}
	}
}

// accept waits for an executor and accepts its session.
func (a *fakeAgent) accept() *fakeSession {
	a.m.t.Helper()
	s := next(a.m.t, a.sessions)
	s.send(protocol.ExecutorSubscribed{Agent: "agent-1", Hostname: "host", RecoveryTimeout: time.Minute})
	return s
}

func (s *fakeSession) send(events ...protocol.ExecutorEvent) {
	_ = s.stream.Send(wire.ExecutorEventsToProto(events))
}

// status waits for the next status and, if told to, acknowledges it.
func (s *fakeSession) status(acknowledge bool) protocol.ExecutorStatus {
	s.t.Helper()
	status, ok := next(s.t, s.calls).(protocol.ExecutorStatus)
	if !ok {
		s.t.Fatal("the session has ended or another call came, want a status")
	}
	if acknowledge {
		s.send(protocol.ExecutorAcknowledged{Task: status.Task, Number: status.Number})
	}
	return status
}

// want waits for a status in the state and acknowledges it.
func (s *fakeSession) want(task api.TaskID, state api.TaskState) protocol.ExecutorStatus {
	s.t.Helper()
	status := s.status(true)
	if status.Task != task || status.State != state {
		s.t.Fatalf("%s is %v (%s), want %s %v", status.Task, status.State, status.Message, task, state)
	}
	return status
}

func launch(id string) protocol.ExecutorLaunch {
	return protocol.ExecutorLaunch{Task: api.Task{ID: api.TaskID(id)}, Sandbox: "/sandbox/" + id}
}

func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(time.Hour):
		var zero T
		t.Fatalf("no %T in an hour", zero)
		return zero
	}
}

// story runs a test in a bubble on a machine without an agent.
func story(t *testing.T, tell func(t *testing.T, m *machine)) {
	synctest.Test(t, func(t *testing.T) { tell(t, &machine{t: t}) })
}

type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func (m *machine) run(handler Handler, options ...Option) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: m.t, stop: stop, done: make(chan error, 1)}
	config := Config{Framework: "framework-1", ID: "x", Token: "secret", Dialer: m.dial}
	for _, option := range options {
		option(&config)
	}
	go func() { r.done <- Serve(ctx, config, handler) }()
	m.t.Cleanup(stop)
	return r
}

func (r *running) wait() error {
	r.t.Helper()
	return next(r.t, r.done)
}
