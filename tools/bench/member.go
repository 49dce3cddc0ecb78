package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tools/loopback"
)

// member is one agent of a flock. The fields below mu change with the session.
type member struct {
	flock  *flock
	from   int           // the number of its address
	holder *trust.Holder // its certificate; nil: it has none
	info   api.Agent
	nonce  api.Nonce
	boot   string
	seek   *lookout.Seeker
	// interval is between two heartbeats, in nanoseconds.
	interval atomic.Int64

	mu      sync.Mutex
	cluster api.ClusterID
	term    api.Term
	session uint64
	stream  grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents] // nil: no session is open
	tasks   map[api.TaskRef]*herdTask
}

// herdTask is a task with its latest status. It is kept until that is terminal and acknowledged.
type herdTask struct {
	reported protocol.ReportedTask
	acked    uint64
}

// proven gives a member a certificate. It resumes TLS sessions.
func (m *member) proven(authority *trust.Authority) error {
	pass, err := authority.Issue(trust.Identity{Kind: trust.Agent, Name: string(m.nonce)}, time.Now())
	if err != nil {
		return err
	}
	m.holder = trust.NewHolder(pass)
	return nil
}

func newMember(f *flock, i int) *member {
	host := fmt.Sprintf("node-%05d.rack-%03d.example.com", i, i/40)
	return &member{
		flock: f, from: 1 + i, nonce: api.Nonce(fmt.Sprintf("nonce-%026d", i)), boot: fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
		info: api.Agent{
			Hostname: host, Resources: api.Scalars(4, 16384), Region: "eu", Zone: fmt.Sprint("zone-", i%3),
			Attributes: map[string]string{"rack": fmt.Sprint("rack-", i/40), "os": "linux"}, Address: host + ":5051", Version: "bench",
		},
		tasks: make(map[api.TaskRef]*herdTask),
	}
}

// run holds one session after the other, as an agent does.
func (m *member) run(ctx context.Context, masters []string) {
	m.seek = lookout.NewSeeker(masters)
	for ctx.Err() == nil {
		found, err := m.hold(ctx, m.seek.Address())
		if found {
			m.seek.Found()
		}
		pause.For(ctx, m.seek.Failed(err))
	}
}

// plainly dials a master from the member's address.
func (m *member) plainly(ctx context.Context, to string) (net.Conn, error) {
	return loopback.Dialer(m.from).DialContext(ctx, "tcp", to)
}

// dial prepares a connection to a master for calls.
func (m *member) dial(address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, m.holder.Dialer(m.plainly, trust.Master), grpc.WithReadBufferSize(4<<10)) // ten thousand members share this process
}

// openSession opens a session with the master that is tried next, as an agent does.
func (m *member) openSession(ctx context.Context, address string) (grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents], error) {
	refused, dial := false, m.holder.Dialer(m.plainly, trust.Master)
	if m.holder != nil && m.seek.LeaderOnly() {
		dial = m.holder.LeaderDialer(m.plainly, func() { refused = true })
	}
	stream, err := direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, func(ctx context.Context, to string) (net.Conn, error) {
		conn, err := dial(ctx, to)
		if err == nil {
			m.flock.conns.Add(1)
		}
		return conn, err
	}, address, api.MessageBytesMax)
	if refused {
		m.flock.refused.Add(1)
		return nil, lookout.ErrNotLeading
	}
	return stream, err
}

// memberTimeout is how long opening a stream may take, and how long a session may be silent until its master tells its
// own timeout.
const memberTimeout = 5 * time.Second

// hold holds one session. found means that the master was the leader.
func (m *member) hold(ctx context.Context, address string) (found bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.flock.shaking <- struct{}{}
	m.flock.tries.Add(1)
	late := time.AfterFunc(memberTimeout, cancel)
	stream, err := m.openSession(ctx, address)
	<-m.flock.shaking
	if !late.Stop() && err == nil {
		err = errors.New("no answer in time")
	}
	if errors.Is(err, lookout.ErrNotLeading) {
		return false, err
	}
	if err != nil {
		return false, wire.Error(err)
	}
	var term api.Term
	if term, err = m.open(stream); err != nil {
		return false, wire.Error(err)
	}
	watch := lookout.New(lookout.Config{Own: address, Masters: m.seek.Masters(), Term: term, Dial: m.dial})
	var beside sync.WaitGroup
	moved := ""
	beside.Go(func() {
		if moved = watch.Run(ctx); moved != "" {
			cancel()
		}
	})
	silent := time.AfterFunc(memberTimeout, cancel)
	found, err = m.read(ctx, stream, watch, silent, &beside)
	silent.Stop()
	cancel()
	beside.Wait()
	m.mu.Lock()
	m.stream = nil
	m.mu.Unlock()
	if moved != "" {
		err = wire.NotLeader("agent.session", moved)
	}
	return found, err
}

// open greets the master with what the member knows about itself.
func (m *member) open(stream grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents]) (api.Term, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream = stream
	if m.info.ID == "" {
		return m.term, m.say(protocol.RegisterAgent{Version: "bench", Agent: m.info, Nonce: m.nonce, BootID: m.boot})
	}
	return m.term, m.say(protocol.ReregisterAgent{
		Cluster: m.cluster, Term: m.term, Version: "bench", Agent: m.info, Nonce: m.nonce, BootID: m.boot,
	})
}

// say sends calls on the stream, if there is one. The caller holds mu.
func (m *member) say(calls ...protocol.AgentCall) error {
	if m.stream == nil || len(calls) == 0 {
		return nil
	}
	batches, err := wire.AgentCallBatches(calls)
	for _, batch := range batches {
		err = errors.Join(err, m.stream.Send(batch))
	}
	return err
}

// read obeys the master until the session ends. What it starts beside that ends with ctx.
func (m *member) read(ctx context.Context, stream grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents],
	watch *lookout.Lookout, silent *time.Timer, beside *sync.WaitGroup,
) (found bool, err error) {
	timeout := memberTimeout
	for {
		message, err := stream.Recv()
		if err != nil {
			return found, wire.Error(err)
		}
		batch, err := wire.AgentEventsFromProto(message)
		if err != nil {
			return found, err
		}
		watch.Heard(batch.Term)
		for _, event := range batch.Events {
			switch e := event.(type) {
			case protocol.AgentRegistered:
				found, timeout = true, e.SessionTimeout
				m.seek.Learn(e.Masters)
				watch.Learn(e.HeartbeatInterval, m.seek.Masters())
				m.interval.Store(int64(e.HeartbeatInterval))
				if err := m.adopt(batch, e); err != nil {
					return found, err
				}
				beside.Go(func() { m.beat(ctx) })
			case protocol.AgentPong:
				m.seek.Learn(e.Masters)
				m.seek.Within(e.ReturnWithin)
				if e.HeartbeatInterval > 0 {
					m.interval.Store(int64(e.HeartbeatInterval))
					timeout = e.SessionTimeout
				}
				watch.Learn(e.HeartbeatInterval, m.seek.Masters())
			case protocol.Reported:
				m.flock.reported(batch.Term)
				defer m.flock.left(batch.Term)
			default:
				if err := m.obey(batch.Term, event); err != nil {
					return found, err
				}
			}
		}
		silent.Reset(timeout)
	}
}

// adopt makes the cut: the report, the first heartbeat, and the unacknowledged statuses (R2).
func (m *member) adopt(batch protocol.AgentEvents, e protocol.AgentRegistered) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.ID, m.cluster, m.term, m.session = e.Agent, e.Cluster, batch.Term, batch.Session
	report := protocol.AgentReport{Session: m.session, Last: true}
	calls := []protocol.AgentCall{nil, protocol.AgentHeartbeat{}}
	for _, t := range m.tasks { // order: irrelevant because tasks know nothing of each other
		report.Tasks = append(report.Tasks, t.reported)
		if t.acked < t.reported.Status.Number {
			calls = append(calls, protocol.StatusUpdate{Status: t.reported.Status})
		}
	}
	calls[0] = report
	return m.say(calls...)
}

func (m *member) beat(ctx context.Context) {
	for pause.For(ctx, time.Duration(m.interval.Load())) {
		m.flock.beats.Add(1)
		m.mu.Lock()
		usage := protocol.UsageReport{Total: api.Usage{At: time.Now(), CPU: 120, Mem: api.MilliOf(900), Procs: 40}}
		err := m.say(protocol.AgentHeartbeat{Usage: usage})
		m.mu.Unlock()
		if err != nil {
			return // the reader returns why
		}
	}
}

func (m *member) obey(term api.Term, event protocol.AgentEvent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e := event.(type) {
	case protocol.LaunchTask:
		return m.launch(term, e)
	case protocol.KillTask:
		return errors.Join(m.say(protocol.KillTaken{TaskRef: e.TaskRef}), m.moved(e.TaskRef, api.TaskKilled))
	case protocol.AcknowledgeStatus:
		if t := m.tasks[e.TaskRef]; t != nil {
			t.acked = max(t.acked, e.Number)
			if t.reported.Ended && t.acked == t.reported.Status.Number {
				delete(m.tasks, e.TaskRef)
			}
		}
	case protocol.RemoveFramework:
		clear(m.tasks) // there is only one framework
	default: // the others mean nothing here
	}
	return nil
}

// launch starts a task: it runs at once, for as many seconds as its command says that it sleeps.
func (m *member) launch(term api.Term, e protocol.LaunchTask) error {
	ref := api.TaskRef{Framework: e.Framework.ID, Task: e.Task.ID}
	if m.tasks[ref] != nil {
		return nil
	}
	m.tasks[ref] = &herdTask{reported: protocol.ReportedTask{
		Task: e.Task, Framework: ref.Framework, Role: e.Role, Resources: e.Resources, Receipt: e.Receipt,
		LaunchedAt: time.Now(), Status: api.Status{Framework: ref.Framework, Task: ref.Task, Agent: m.info.ID, Executor: e.Task.ExecutorID(),
			Launch: api.LaunchID{Term: term, Number: e.Number}},
	}}
	if span, ends := sleepOf(e.Task.Command); ends {
		time.AfterFunc(span, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			_ = m.moved(ref, api.TaskFinished) // the next session reports it
		})
	}
	return m.moved(ref, api.TaskRunning)
}

// sleepOf returns how long a command sleeps, unless it does so for ever.
func sleepOf(command *api.Command) (time.Duration, bool) {
	if command == nil {
		return 0, false
	}
	words := strings.Fields(command.Shell) // a gateway writes more before it
	if len(words) == 0 {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(words[len(words)-1], 64)
	return time.Duration(seconds * float64(time.Second)), err == nil && !math.IsInf(seconds, 1)
}

// moved makes the next step in a task's life. The caller holds mu.
func (m *member) moved(ref api.TaskRef, state api.TaskState) error {
	t := m.tasks[ref]
	if t == nil || t.reported.Ended {
		return nil
	}
	status := &t.reported.Status
	status.Number++
	status.State, status.Source, status.At = state, api.MoverExecutor, time.Now()
	t.reported.Ended = state.Terminal()
	return m.say(protocol.StatusUpdate{Status: *status})
}
