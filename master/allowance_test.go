package master

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/memnet"
)

// heldTimes counts waits, and lines of the log about them.
type heldTimes struct{ waits, lines atomic.Int64 }

func (h *heldTimes) held(_ expense, _ string, _ time.Duration, tell bool) {
	if h.waits.Add(1); tell {
		h.lines.Add(1)
	}
}

func from(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

// took is how long something takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// TestPeersAreHeld (R34): who has used up what its connection may say is held until it has grown again; so is who says
// it over many connections of one address. Nobody else is.
func TestPeersAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldTimes
		all, rate := newAddresses(h.held), rates[callsExpense]
		greedy, honest := all.connected(from("10.0.0.1")), all.connected(from("10.0.0.2"))
		pay := func(s *sender, amount float64) time.Duration {
			return took(func() { s.pay(t.Context(), callsExpense, amount) })
		}
		if held := pay(greedy, rate.connection.First); held != 0 {
			t.Errorf("who begins is held for %v", held)
		}
		if held := pay(greedy, rate.connection.PerSecond); held != time.Second {
			t.Errorf("a second's worth is held for %v", held)
		}
		if held := pay(honest, rate.connection.First) + pay(newSender(), 1e12); held != 0 || h.waits.Load() != 1 || h.lines.Load() != 1 {
			t.Errorf("others are held for %v; %d waits, %d lines", held, h.waits.Load(), h.lines.Load())
		}
		together := took(func() {
			for i := range 100 { // ever new connections of one address
				s := all.connected(from("10.0.0.3"))
				s.pay(t.Context(), callsExpense, rate.address.First/20)
				if all.left(s); i%2 == 0 {
					s.charge(callsExpense, rate.address.First/20)
				}
			}
		})
		if least := 6 * time.Second; together < least {
			t.Errorf("150 twentieths of a second's worth over 100 connections took %v", together)
		}
		if lines := h.lines.Load(); lines > 3 {
			t.Errorf("%d lines tell of two addresses", lines)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if greedy.pay(ctx, callsExpense, 1e9) {
			t.Error("its stream is gone, and it was let on")
		}
	})
}

// TestAddressesAreForgotten (R34): who comes from ever new addresses leaves nothing behind; a host of the sixth version
// has one address, though it has all of a network.
func TestAddressesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newAddresses(new(heldTimes).held)
		kept := all.connected(from("192.168.0.1"))
		for i := range 10_000 {
			all.left(all.connected(from(fmt.Sprintf("10.0.%d.%d", i/250, i%250))))
			if len(all.known) > 4*knownMin {
				t.Fatalf("%d addresses are remembered", len(all.known))
			}
		}
		if all.known["192.168.0.1"] != kept.address {
			t.Error("an address with a connection is forgotten")
		}
		one, other := all.connected(from("fd00::1")), all.connected(from("fd00::2"))
		if one.address != other.address || one.address == all.connected(from("fd00:0:0:1::1")).address {
			t.Error("a network of the sixth version is one address")
		}
	})
}

// TestStoreWritesAreHeld (R34): what goes into the log has its own rate, and while a connection is held for it no more
// than a few of its writes are in memory.
func TestStoreWritesAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, on, by := newRequests(newDesk()), &keeper{let: make(chan struct{})}, newAddresses(new(heldTimes).held).connected(from("10.0.0.1"))
		close(on.let)
		var read atomic.Int64
		write := func() {
			if err := put(q, on, call(t.Context(), by, 1<<20-4<<10, &read)); err != nil {
				t.Error(err)
			}
		}
		if held := took(write); held != 0 {
			t.Errorf("the first megabyte is held for %v", held)
		}
		began, done := time.Now(), make(chan struct{})
		for range 20 {
			go func() { write(); done <- struct{}{} }()
		}
		synctest.Wait()
		if n := read.Load(); n > 1+requestsReadMax { // fewer, when one that is read has left the others in debt before they are
			t.Errorf("%d writes were read", n)
		}
		for range 20 {
			<-done
		}
		if held := time.Since(began); held < 9*time.Second || held > 10*time.Second {
			t.Errorf("20 megabytes are held for %v", held)
		}
	})
}

// TestNewConstraintsAreHeld (R34): who has used up its processor time for constraints is held; meanwhile another's are
// compiled.
func TestNewConstraintsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, all := newPrograms(), newAddresses(new(heldTimes).held)
		greedy, honest := all.connected(from("10.0.0.1")), all.connected(from("10.0.0.2"))
		demand := func(text string) []protocol.NumberedCall {
			return []protocol.NumberedCall{{Number: 1, Call: protocol.SetDemand{Demand: api.Demand{Shapes: []api.Shape{{Constraint: text}}}}}}
		}
		greedy.use(compileExpense, rates[compileExpense].connection.First+rates[compileExpense].connection.PerSecond, endless)
		over := make(chan time.Duration)
		go func() {
			over <- took(func() { p.prepare(t.Context(), greedy, demand(`id != "a"`)) })
		}()
		synctest.Wait()
		if held := took(func() { p.prepare(t.Context(), honest, demand(`id != "b"`)) }); held != 0 {
			t.Errorf("the honest one is held for %v", held)
		}
		if held := <-over; held != time.Second {
			t.Errorf("the greedy one is held for %v", held)
		}
	})
}

// alone is a master that leads in a network of its own.
func alone(t *testing.T) (*Master, *memnet.Net, func()) {
	t.Helper()
	network := memnet.New()
	m, err := New(Config{
		ID: "m1", Memory: NewMemory(), Peers: []Peer{{ID: "m1", Addr: "host:5070"}}, GRPC: "host:5060", HTTP: "none", Raft: "host:5070",
		Listen: network.Listen, Dial: network.From("host").Dial, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	for m.leading.Load() == nil {
		<-m.LeadershipChanged()
	}
	return m, network, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// peerOf is a connection from a host of the network.
func peerOf(t *testing.T, network *memnet.Net, host string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///host:5060", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(network.From(host).Dial))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// admitted registers an agent of that nonce and returns its stream.
func admitted(t *testing.T, conn *grpc.ClientConn, nonce string) grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents] {
	t.Helper()
	stream, err := apiv1.NewAgentServiceClient(conn).Session(t.Context())
	if err == nil {
		err = stream.Send(&apiv1.AgentCalls{Calls: []*apiv1.AgentCall{{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{
			Agent: &apiv1.Agent{Hostname: nonce, Resources: []*apiv1.Resource{{Name: "cpus", Milli: 1000}}}, Nonce: nonce, BootId: "boot"}}}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestAdmissionsAreHeld (R34): agents with ever new nonces are admitted so many a second from one address, however many
// connections they have; one from elsewhere is admitted at once.
func TestAdmissionsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		conns := []*grpc.ClientConn{peerOf(t, network, "crowd"), peerOf(t, network, "crowd"), peerOf(t, network, "elsewhere")}
		const more = 100
		rate := rates[sessionsExpense].address
		least := time.Duration(more / rate.PerSecond * float64(time.Second))
		if held := took(func() {
			for i := range int(rate.First) + more {
				_ = admitted(t, conns[i%2], fmt.Sprint("nonce-", i)).CloseSend()
			}
		}); held < least || held > 2*least {
			t.Errorf("%v admissions took %v, at %v a second", rate.First+more, held, rate.PerSecond)
		}
		if held := took(func() { admitted(t, conns[2], "elsewhere") }); held > time.Second/10 {
			t.Errorf("an agent from elsewhere is held for %v", held)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		end()
	})
}

// TestWordsInVainAreHeld (R34): an agent that goes on to speak of what is not there is held after each part of it.
func TestWordsInVainAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		conn := peerOf(t, network, "liar")
		stream := admitted(t, conn, "liar")
		lies := new(apiv1.AgentCalls)
		for i := range 4000 {
			lies.Calls = append(lies.Calls, &apiv1.AgentCall{Call: &apiv1.AgentCall_Status{Status: &apiv1.Status{
				FrameworkId: "framework-9", TaskId: fmt.Sprint("t", i), ExecutorId: "x", Number: 1, State: apiv1.TaskState_RUNNING}}})
		}
		began := time.Now()
		if err := stream.Send(lies); err != nil {
			t.Fatal(err)
		}
		for answers := 0; answers < len(lies.Calls); {
			events, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events.GetEvents() {
				if event.GetAcknowledge() != nil {
					answers++
				}
			}
		}
		if held := time.Since(began); held < time.Second {
			t.Errorf("4,000 of them are read in %v", held)
		}
		_ = conn.Close()
		end()
	})
}

func TestRefusalPrice(t *testing.T) {
	if refusalPrice(0, 10, 1000) != 0 || refusalPrice(10, 10, 1000) != 10*refusedPrice+refusedTimes*1000 || refusalPrice(5, 10, 1000) != 5*refusedPrice+refusedTimes*500 {
		t.Error("what is refused is charged by its share of the part")
	}
}
