package master_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/testing/testlog"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master"
)

// house is masters in memory, inside a synctest bubble.
type house struct {
	t       *testing.T
	net     *memnet.Net
	masters map[api.MasterID]*running
}

type running struct {
	*master.Master
	config master.Config
	stop   context.CancelFunc
	ended  chan error
}

func newHouse(t *testing.T, n int) *house {
	h := &house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}
	var peers []master.Peer
	for i := range n {
		peers = append(peers, master.Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprintf("host%d:5070", i+1)})
	}
	log := testlog.New(t)
	for i, peer := range peers {
		host := fmt.Sprint("host", i+1)
		h.start(master.Config{
			ID: peer.ID, Memory: master.NewMemory(), Peers: peers, GRPC: host + ":5060", HTTP: host + ":5050", Raft: host + ":5070",
			Listen: h.net.Listen, Dial: h.net.From(host).Dial, Logger: &log, Log: master.Log{Level: new(logging.Level)}, Version: "test",
		})
	}
	return h
}

func (h *house) start(config master.Config) *running {
	h.t.Helper()
	m, err := master.New(config)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	r := &running{m, config, cancel, make(chan error, 1)}
	h.masters[m.ID()] = r
	go func() { r.ended <- m.Run(ctx) }()
	return r
}

func (h *house) stop(id api.MasterID) {
	r := h.masters[id]
	r.stop()
	if err := <-r.ended; err != nil {
		h.t.Errorf("%s ended with %v", id, err)
	}
	delete(h.masters, id)
}

func (h *house) close() {
	for id := range h.masters {
		h.stop(id)
	}
}

// leader awaits a master that leads.
func (h *house) leader() *running {
	h.t.Helper()
	for range 3000 {
		for _, r := range h.masters {
			if _, leads := r.Leading(); leads {
				return r
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	h.t.Fatal("nobody leads")
	return nil
}

func (h *house) connect(address string) *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(h.net.From("client").Dial))
	if err != nil {
		h.t.Fatal(err)
	}
	return conn
}

// notebook keeps what masters log; it can be read while they run.
type notebook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notebook) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(line)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// tear takes out what was written until now.
func (n *notebook) tear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Reset()
}

// scheduler is a session written by hand.
type scheduler struct {
	t      *testing.T
	stream apiv1.SchedulerService_SessionClient
	number uint64
	events []protocol.SchedulerEvent
	stop   context.CancelFunc
}

func newScheduler(t *testing.T, conn *grpc.ClientConn, subscribe protocol.Subscribe) *scheduler {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := apiv1.NewSchedulerServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{t: t, stream: stream, stop: cancel}
	s.call(subscribe)
	s.call(protocol.Unsettled{Last: true})
	return s
}

func (s *scheduler) call(call protocol.SchedulerCall) {
	s.t.Helper()
	s.number++
	if err := s.stream.Send(wire.SchedulerCallsToProto([]protocol.NumberedCall{{Number: s.number, Call: call}})); err != nil {
		s.t.Fatal(err)
	}
}

// await returns the next event of type E, passing over others.
func awaitEvent[E protocol.SchedulerEvent](s *scheduler) E {
	s.t.Helper()
	for {
		for len(s.events) > 0 {
			event := s.events[0]
			s.events = s.events[1:]
			if wanted, ok := event.(E); ok {
				return wanted
			}
		}
		message, err := s.stream.Recv()
		if err != nil {
			var none E
			s.t.Fatalf("waiting for %T: %v", none, err)
		}
		if _, s.events, err = wire.SchedulerEventsFromProto(message); err != nil {
			s.t.Fatal(err)
		}
	}
}

// node is an agent's session written by hand.
type node struct {
	t       *testing.T
	stream  master.AgentStream
	session uint64
	events  []protocol.AgentEvent
	stop    context.CancelFunc
}

// newNode registers an agent of this house.
func (h *house) newNode(address string, nonce api.Nonce) *node {
	h.t.Helper()
	return newNode(h.t, h.net.From("client").Dial, address, nonce)
}

func newNode(t *testing.T, dial wire.Dialer, address string, nonce api.Nonce) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &node{t: t, stream: master.OpenAgent(ctx, t, dial, address), stop: cancel}
	a.call(protocol.RegisterAgent{
		Agent: api.Agent{Hostname: "host-of-" + string(nonce), Resources: api.Scalars(4, 4096)}, Nonce: nonce, BootID: "boot",
	})
	awaitAgent[protocol.AgentRegistered](a)
	a.call(protocol.AgentReport{Session: a.session, Last: true})
	a.call(protocol.AgentHeartbeat{})
	return a
}

func (a *node) call(call protocol.AgentCall) {
	a.t.Helper()
	if err := a.stream.Send(wire.AgentCallsToProto([]protocol.AgentCall{call})); err != nil {
		a.t.Fatal(err)
	}
}

func awaitAgent[E protocol.AgentEvent](a *node) E {
	a.t.Helper()
	for {
		for len(a.events) > 0 {
			event := a.events[0]
			a.events = a.events[1:]
			if wanted, ok := event.(E); ok {
				return wanted
			}
		}
		message, err := a.stream.Recv()
		if err != nil {
			var none E
			a.t.Fatalf("waiting for %T: %v", none, err)
		}
		batch, err := wire.AgentEventsFromProto(message)
		if err != nil {
			a.t.Fatal(err)
		}
		a.session, a.events = batch.Session, batch.Events
	}
}

// TestOneOffer: the way of one offer through one master: register, subscribe, offer,
// accept, launch, status, acknowledgement.
func TestOneOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		defer h.close()
		conn := h.connect(h.leader().GRPCAddr())
		defer conn.Close()
		agent := h.newNode(h.leader().GRPCAddr(), "n1")
		defer agent.stop()
		framework := newScheduler(t, conn, protocol.Subscribe{
			Framework: api.Framework{Name: "batch", Roles: []api.Role{"web"}}, Instance: "i1",
		})
		defer framework.stop()
		subscribed := awaitEvent[protocol.Subscribed](framework)
		if subscribed.Framework != "framework-1" || len(subscribed.Masters) != 1 || subscribed.Masters[0] != "host1:5060" {
			t.Errorf("subscribed: %+v", subscribed)
		}
		offer := awaitEvent[protocol.Offers](framework).Offers[0]
		if !offer.Resources.Equal(api.Scalars(4, 4096)) {
			t.Errorf("offered %v", offer.Resources)
		}
		task := api.Task{ID: "t1", Resources: api.Scalars(1, 100), Command: &api.Command{Argv: []string{"true"}}}
		framework.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}})
		launch := awaitAgent[protocol.LaunchTask](agent)
		if launch.Task.ID != "t1" || launch.Framework.ID != "framework-1" {
			t.Errorf("launch: %+v", launch)
		}
		term, _ := h.leader().Leading()
		agent.call(protocol.StatusUpdate{Status: api.Status{
			Framework: "framework-1", Task: "t1", Agent: offer.Agent, Executor: "command", Number: 1, Launch: api.LaunchID{Term: term, Number: launch.Number},
			State: api.TaskRunning, Source: api.MoverExecutor, At: time.Now(),
		}})
		update := awaitEvent[protocol.Update](framework)
		for update.Status.State != api.TaskRunning {
			update = awaitEvent[protocol.Update](framework)
		}
		framework.call(protocol.Acknowledge{Items: []protocol.Acknowledgement{
			{Framework: "framework-1", Task: "t1", Agent: offer.Agent, Number: update.Status.Number},
		}})
		if ack := awaitAgent[protocol.AcknowledgeStatus](agent); ack.Number != 1 {
			t.Errorf("acknowledged %+v", ack)
		}
		tasks, err := apiv1.NewOperatorServiceClient(conn).ListTasks(t.Context(), &apiv1.ListTasksRequest{})
		if err != nil || len(tasks.Items) != 1 || tasks.Items[0].State != "RUNNING" {
			t.Errorf("tasks: %v, %v", tasks, err)
		}
	})
}

// TestThreeMasters: followers say who leads, the leader's end makes another one, and
// what was admitted is known to it.
// awaitNews asks each follower for the leader that comes after this one.
func (h *house) awaitNews(first *running) <-chan *apiv1.LeaderResponse {
	term, _ := first.Leading()
	news := make(chan *apiv1.LeaderResponse, len(h.masters))
	for _, r := range h.masters {
		if r == first {
			continue
		}
		go func() {
			conn := h.connect(r.GRPCAddr())
			defer conn.Close()
			answer, err := apiv1.NewMasterServiceClient(conn).Leader(h.t.Context(), &apiv1.LeaderRequest{After: wire.TermToProto(term)})
			if err != nil {
				h.t.Errorf("%s knows nobody: %v", r.ID(), err)
			}
			news <- answer
		}()
	}
	synctest.Wait()
	return news
}

func TestThreeMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		first := h.leader()
		conn := h.connect(first.GRPCAddr())
		agent := h.newNode(first.GRPCAddr(), "n1")
		<-time.After(5 * time.Second) // every master has announced itself
		for _, r := range h.masters {
			if r == first {
				continue
			}
			other := h.connect(r.GRPCAddr())
			stream, err := apiv1.NewSchedulerServiceClient(other).Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			if e := wire.Error(err); e == nil || e.Kind != api.NotLeader || wire.LeaderOf(e) != first.GRPCAddr() {
				t.Errorf("%s refuses with %v, the leader is at %s", r.ID(), err, first.GRPCAddr())
			}
			_, err = apiv1.NewOperatorServiceClient(other).ListAgents(t.Context(), &apiv1.ListRequest{})
			if e := wire.Error(err); e == nil || e.Kind != api.NotLeader {
				t.Errorf("a follower lists agents: %v", err)
			}
			stale, err := apiv1.NewOperatorServiceClient(other).ListAgents(t.Context(), &apiv1.ListRequest{Stale: true})
			if err != nil || len(stale.Items) != 1 || stale.Items[0].State != "unknown" || stale.AppliedIndex == 0 {
				t.Errorf("stale agents: %v, %v", stale, err)
			}
			_ = other.Close()
			transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return h.net.From("client").Dial(ctx, address)
			}}
			response, err := (&http.Client{Transport: transport}).Get("http://" + r.HTTPAddr() + "/v1/ListAgents")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != 503 || !strings.Contains(string(body), `"leader":"`+first.HTTPAddr()+`"`) {
				t.Errorf("over HTTP a follower says %d %s, %v; the leader is at %s", response.StatusCode, body, err, first.HTTPAddr())
			}
			transport.CloseIdleConnections()
		}
		masters, err := apiv1.NewOperatorServiceClient(conn).ListMasters(t.Context(), &apiv1.ListRequest{})
		if err != nil || len(masters.Items) != 3 {
			t.Fatalf("masters: %v, %v", masters, err)
		}
		leaders, err := apiv1.NewOperatorServiceClient(conn).ListMasters(t.Context(), &apiv1.ListRequest{States: []string{"leader"}})
		if err != nil || len(leaders.Items) != 1 || leaders.Items[0].Id != string(first.ID()) {
			t.Errorf("those that lead: %v, %v", leaders, err)
		}
		for _, view := range masters.Items {
			if view.GrpcAddress == "" || view.HttpAddress == "" || view.Version != "test" {
				t.Errorf("master %+v", view)
			}
		}
		news := h.awaitNews(first)
		h.stop(first.ID())
		if _, err := agent.stream.Recv(); err == nil {
			t.Log("one event was still under way")
		}
		agent.stop()
		_ = conn.Close()
		second := h.leader()
		conn = h.connect(second.GRPCAddr())
		defer conn.Close()
		for range h.masters {
			term, _ := second.Leading()
			if answer := <-news; answer.GetGrpcAddress() != second.GRPCAddr() || wire.TermFromProto(answer.GetTerm()) != term {
				t.Errorf("a follower names %v; %s leads in term %v", answer, second.GRPCAddr(), term)
			}
		}
		again := h.newNode(second.GRPCAddr(), "n1")
		defer again.stop()
		agents, err := apiv1.NewOperatorServiceClient(conn).ListAgents(t.Context(), &apiv1.ListRequest{})
		if err != nil || len(agents.Items) != 1 || agents.Items[0].Id != "agent-1" {
			t.Errorf("agents of the second leader: %v, %v", agents, err)
		}
	})
}

func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		defer h.close()
		leader := h.leader()
		conn := h.connect(leader.GRPCAddr())
		agent := h.newNode(leader.GRPCAddr(), "n1")
		defer conn.Close()
		defer agent.stop()
		synctest.Wait() // the leader has its heartbeat, which nothing answers: without, the agent is INITING
		transport := &http.Transport{DialContext: nil}
		dial := h.net.From("client").Dial
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for _, test := range []struct {
			method, path, body string
			code               int
			says               string
		}{
			{"GET", "/healthz", "", 200, "ok"},
			{"GET", "/readyz", "", 200, "m1 leads"},
			{"GET", "/v1/ListAgents?limit=10", "", 200, `"host-of-n1"`},
			{"POST", "/v1/ListAgents", `{"prefix":"agent-1"}`, 200, `"agent-1"`},
			{"POST", "/v1/ListAgents", `{"prefix":"none"}`, 200, `"items": []`},
			{"GET", "/v1/ListAgents?colour=red", "", 400, "no such field"},
			{"POST", "/v1/ListAgents", `{"limit":"many"}`, 400, `"kind":"invalid"`},
			{"GET", "/v1/KillTask?task=t1", "", 400, "use POST"},
			{"POST", "/v1/KillTask", `{"task":"t1"}`, 404, `"kind":"not found"`},
			{"POST", "/v1/SetRole", `{"role":"web","weight":2,"limit":"cpus:2"}`, 200, `"weight": 2`},
			{"POST", "/v1/SetRole", `{"role":"web","limit":"cpus"}`, 400, "NAME:AMOUNT"},
			{"GET", "/v1/Nothing", "", 404, "no such method"},
			{"GET", "/v1/ListPeers", "", 200, `"leader"`},
			{"GET", "/v1/StateHash", "", 200, `"hash"`},
			{"PUT", "/v1/log-level?level=warn", "", 200, `{"level":"warn"}`},
			{"PUT", "/v1/log-level?level=loud", "", 400, "write debug, info, warn or error"},
			{"GET", "/v1/log-level", "", 200, `{"level":"warn"}`},
			{"GET", "/metrics", "", 200, `tender_agents{state="RUNNING"} 1`},
			{"GET", "/metrics", "", 200, `tender_offer_return_seconds_count`},
		} {
			request, err := http.NewRequestWithContext(t.Context(), test.method, "http://"+leader.HTTPAddr()+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if test.method == "POST" {
				request.Header.Set("Content-Type", "application/json")
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode != test.code || !strings.Contains(string(body), test.says) {
				t.Errorf("%s %s %s: %d %.300s, %v", test.method, test.path, test.body, response.StatusCode, body, err)
			}
		}
	})
}
