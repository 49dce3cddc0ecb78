package framework

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// network is where fake masters listen, in memory.
type network struct {
	t       testing.TB
	mu      sync.Mutex
	masters map[string]*fakeMaster
	store   apiv1.StoreServiceServer // of all masters; nil: none
}

func newNetwork(t *testing.T) *network {
	return &network{t: t, masters: make(map[string]*fakeMaster)}
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	m := n.masters[address]
	n.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	return m.listener.DialContext(ctx)
}

// fakeMaster is a master that the test plays, session by session.
type fakeMaster struct {
	apiv1.UnimplementedSchedulerServiceServer
	n        *network
	address  string
	listener *bufconn.Listener
	server   *grpc.Server
	sessions chan *fakeSession
}

func (n *network) start(address string) *fakeMaster {
	m := &fakeMaster{n: n, address: address, listener: bufconn.Listen(1 << 16), server: grpc.NewServer(), sessions: make(chan *fakeSession)}
	apiv1.RegisterSchedulerServiceServer(m.server, m)
	if n.store != nil {
		apiv1.RegisterStoreServiceServer(m.server, n.store)
	}
	n.mu.Lock()
	n.masters[address] = m
	n.mu.Unlock()
	go func() { _ = m.server.Serve(m.listener) }() // until stop
	n.t.Cleanup(m.stop)
	return m
}

// stop ends the process.
func (m *fakeMaster) stop() {
	m.n.mu.Lock()
	if m.n.masters[m.address] == m {
		delete(m.n.masters, m.address)
	}
	m.n.mu.Unlock()
	m.server.Stop()
	m.listener.Close()
}

// fakeSession is a scheduler's stream at a fake master.
type fakeSession struct {
	t         testing.TB
	term      api.Term
	stream    grpc.BidiStreamingServer[apiv1.SchedulerCalls, apiv1.SchedulerEvents]
	subscribe protocol.Subscribe
	calls     chan protocol.NumberedCall // without heartbeats; closed at the end
	end       chan error
	told      bool // it has said that offers may come; that call is not in calls
	stopBeat  context.CancelFunc
	last      uint64
	mu        sync.Mutex
	unsettled []protocol.UnsettledTask
}

func (m *fakeMaster) Session(stream grpc.BidiStreamingServer[apiv1.SchedulerCalls, apiv1.SchedulerEvents]) error {
	s := &fakeSession{
		t: m.n.t, term: api.Term{Number: 1}, stream: stream,
		calls: make(chan protocol.NumberedCall, 1<<16), end: make(chan error, 1),
	}
	opened := make(chan struct{})
	go func() {
		defer close(s.calls)
		for open := false; ; {
			message, err := stream.Recv()
			if err != nil {
				return
			}
			for _, call := range callsFromProto(s.t, message) {
				if call.Number <= s.last {
					s.t.Errorf("call %d follows call %d", call.Number, s.last)
				}
				s.last = call.Number
				switch c := call.Call.(type) {
				case protocol.Subscribe:
					s.subscribe = c
				case protocol.Unsettled:
					s.ask(c.Tasks)
					if c.Last && !open {
						open = true
						close(opened)
					}
				case protocol.SchedulerHeartbeat:
				case protocol.Revive:
					if !s.told && len(s.subscribe.Suppressed) > 0 && len(c.Roles) > 0 {
						s.told = true // this call says that offers may come
						continue
					}
					s.calls <- call
				default:
					s.calls <- call
				}
			}
			if s.subscribe.TellLater && !open { // the last page comes when the scheduler has read what it needs
				open = true
				close(opened)
			}
		}
	}()
	select {
	case <-opened:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	select {
	case m.sessions <- s:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	select {
	case err := <-s.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// accept waits for a scheduler.
func (m *fakeMaster) accept() *fakeSession {
	m.n.t.Helper()
	select {
	case s := <-m.sessions:
		return s
	case <-time.After(time.Hour):
		m.n.t.Fatalf("%s: nobody subscribes", m.address)
		return nil
	}
}

// lead accepts a scheduler and its subscription, and sends heartbeats from then on.
func (m *fakeMaster) lead(term uint64) *fakeSession {
	m.n.t.Helper()
	s := m.accept()
	s.term = api.Term{Number: term}
	s.activate()
	return s
}

func (s *fakeSession) activate() {
	s.send(protocol.Subscribed{
		Cluster: "cluster", Framework: "framework-1", Session: 1, HeartbeatInterval: time.Second,
		SessionTimeout: 5 * time.Second, Master: "m1",
	})
	s.beat()
}

func (s *fakeSession) beat() {
	ctx, stop := context.WithCancel(s.stream.Context())
	s.stopBeat = stop
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
				s.send(protocol.MasterHeartbeat{})
			}
		}
	}()
}

func (s *fakeSession) ask(tasks []protocol.UnsettledTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettled = append(s.unsettled, tasks...)
}

// asked returns the tasks whose states the scheduler asked for at its start. First it waits a moment until all of that
// has come, because the subscription and these questions may come in one message or in two.
func (s *fakeSession) asked() []protocol.UnsettledTask {
	<-time.After(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unsettled)
}

func (s *fakeSession) send(events ...protocol.SchedulerEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.stream.Send(eventsToProto(s.term, events))
}

func (s *fakeSession) close(err error) {
	if s.stopBeat != nil {
		s.stopBeat()
	}
	s.end <- err
}

// call waits for the next call, which must be of the type.
func call[T protocol.SchedulerCall](s *fakeSession) (T, uint64) {
	s.t.Helper()
	var zero T
	select {
	case next, ok := <-s.calls:
		if !ok {
			s.t.Fatalf("the session has ended, want %T", zero)
		}
		got, ok := next.Call.(T)
		if !ok {
			s.t.Fatalf("call %d is %T %+v, want %T", next.Number, next.Call, next.Call, zero)
		}
		return got, next.Number
	case <-time.After(time.Hour):
		s.t.Fatalf("no call in an hour, want %T", zero)
	}
	return zero, 0
}

// quiet checks that no call comes for a while.
func (s *fakeSession) quiet(d time.Duration) {
	s.t.Helper()
	select {
	case next, ok := <-s.calls:
		if ok {
			s.t.Errorf("unexpected call %T %+v", next.Call, next.Call)
		} else {
			s.t.Error("the session has ended")
		}
	case <-time.After(d):
	}
}

// script is a scheduler whose callbacks are functions of the test.
type script struct {
	offers  func(ctx context.Context, offers []api.Offer) []api.Answer
	update  func(ctx context.Context, status api.Status) error
	updates chan api.Status
	clients chan *Client
	greet   func(ctx context.Context) error
}

func newScript() *script {
	return &script{updates: make(chan api.Status, 1024), clients: make(chan *Client, 16)}
}

func (s *script) Subscribed(ctx context.Context, client *Client) error {
	s.clients <- client
	if s.greet != nil {
		return s.greet(ctx)
	}
	return nil
}

func (s *script) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	if s.offers == nil {
		return nil
	}
	return s.offers(ctx, offers)
}

func (s *script) Update(ctx context.Context, status api.Status) error {
	s.updates <- status
	if s.update == nil {
		return nil
	}
	return s.update(ctx, status)
}

// running is a Run in the background.
type running struct {
	t    testing.TB
	stop context.CancelFunc
	done chan error
}

// story runs a test in a bubble with a network.
func story(t *testing.T, tell func(t *testing.T, n *network)) {
	synctest.Test(t, func(t *testing.T) { tell(t, newNetwork(t)) })
}

func (n *network) run(scheduler Scheduler, change func(*Config)) *running {
	config := Config{Name: "test", Masters: []string{"m1:1"}, Dialer: n.dial}
	if change != nil {
		change(&config)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: n.t, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- Run(ctx, config, scheduler) }()
	n.t.Cleanup(stop)
	return r
}

// end stops Run and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil {
		r.t.Errorf("Run returned %v", err)
	}
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(time.Hour):
		r.t.Fatal("Run does not return")
		return nil
	}
}

// next waits for a value.
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

func offerOf(id string) api.Offer {
	return api.Offer{ID: api.OfferID(id), Framework: "framework-1", Agent: "agent-1", Role: "default", Resources: api.Scalars(4, 4096), Timeout: 30 * time.Second}
}

func taskOf(id string) api.Task {
	return api.Task{ID: api.TaskID(id), Resources: api.Scalars(1, 128), Command: &api.Command{Shell: "true"}}
}

func statusOf(id string, number uint64, state api.TaskState) protocol.Update {
	return protocol.Update{Status: api.Status{
		Framework: "framework-1", Task: api.TaskID(id), Agent: "agent-1", Executor: "command", Number: number,
		State: state, Source: api.MoverAgent, At: time.Now(),
	}}
}
