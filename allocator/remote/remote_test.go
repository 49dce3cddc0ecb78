package remote

import (
	"context"
	"flag"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
)

const address = "policy:1"

// serve runs the other process in memory; stop ends it.
func serve(t *testing.T, network *memnet.Net) (stop func()) {
	t.Helper()
	listener, err := network.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	apiv1.RegisterAllocatorServiceServer(server, &Server{Policy: fairshare.New})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends by Stop
	}()
	var once sync.Once
	stop = func() { once.Do(func() { server.Stop(); <-done }) }
	t.Cleanup(stop)
	return stop
}

// prompt is a Prompt that remembers the messages of its session.
type prompt struct {
	*Prompt
	said chan string
}

func start(t *testing.T, network *memnet.Net) *prompt {
	t.Helper()
	half, err := New(allocator.Config{Argument: address})
	if err != nil {
		t.Fatal(err)
	}
	half.DialBy(network.Dial)
	said := make(chan string, 100)
	p, err := NewPrompt(context.Background(), half, listen(said))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &prompt{p, said}
}

// listen keeps the first messages, as many as fit into the channel.
func listen(said chan<- string) func(bool, string, string) {
	return func(_ bool, message, why string) {
		select {
		case said <- message + ": " + why:
		default:
		}
	}
}

// there waits until the other process is back.
func (p *prompt) there() { p.await(func() bool { return p.session != nil }) }

// TestSuite: an allocator in another process passes the suite of all allocators.
func TestSuite(t *testing.T) {
	fewer(t)
	allocatortest.Suite(t, fresh(t))
}

// fewer lowers the number of checks of each property. Every step waits for the other process, and the policy's rules are
// the same as without a network.
func fewer(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if os.Getenv("TENDER_TEST_LONG") != "" || checks.Value.String() != checks.DefValue {
		return
	}
	if err := flag.Set(checks.Name, "10"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(checks.Name, checks.DefValue) })
}

// TestHistories runs the properties of the suite for as many steps as a network allows.
func TestHistories(t *testing.T) {
	if os.Getenv("TENDER_TEST_LONG") == "" {
		t.Skip("TENDER_TEST_LONG plays twenty thousand steps")
	}
	allocatortest.Histories(t, fresh(t), 20_000)
}

// fresh returns a function that opens a new session to the same other process, which makes a new policy for each
// session.
func fresh(t *testing.T) func() allocator.Allocator {
	network := memnet.New()
	serve(t, network)
	var last []*prompt
	return func() allocator.Allocator {
		if len(last) >= 4 { // no test uses more of them at a time
			last[0].Close()
			last = last[1:]
		}
		p := start(t, network)
		last = append(last, p)
		return p
	}
}

// TestAwayAndBack: while the other process is away nothing is offered, and explain says why. When it is back it is told
// everything again, also of open offers that it has not proposed itself.
func TestAwayAndBack(t *testing.T) {
	network := memnet.New()
	stop := serve(t, network)
	p := start(t, network)
	c := allocatortest.NewCluster(t, p)
	c.Agent("a1", "cpus:4;mem:4096")
	c.Agent("a2", "cpus:4;mem:4096")
	c.Framework("f1", "web")
	c.Demand("f1", "web", c.Shape("cpus:1;mem:1024", 6))
	c.Allocate()
	open := c.Offer("f1", "a1")
	c.Accept(c.Offer("f1", "a2"), 0, c.R("cpus:1;mem:1024"))

	stop()
	p.await(func() bool { return p.session == nil })
	c.Framework("f2", "web")
	c.Expect()
	c.Because("f2", "", "the allocator at policy:1 is away for")

	serve(t, network)
	p.there()
	c.Accept(open, time.Minute, c.R("cpus:1;mem:1024"))
	if said := <-p.said; !strings.HasPrefix(said, "allocator is there") {
		t.Fatalf("first was said: %q", said)
	}
	if said := <-p.said; !strings.HasPrefix(said, "allocator is away") {
		t.Fatalf("then was said: %q", said)
	}
	// f2 takes anything and f1 wants four more; f1 has declined the rest of a1 for a minute.
	c.Allocate()
	held := map[api.AgentID]api.FrameworkID{}
	for _, offer := range c.Offers {
		held[offer.Agent] = offer.Framework
	}
	if held["a1"] != "f2" {
		t.Fatalf("a1 is offered to %q; f1 declined it\n%s", held["a1"], c.Words(c.Offers))
	}
	shares := p.Shares()
	if got := shares.Frameworks["f1"] + shares.Frameworks["f2"]; got < 0.99 {
		t.Fatalf("together they hold %v of the cluster: %v", got, shares)
	}
}

// TestStaleProposals: a proposal from before its agent was removed is dropped and not returned, because the other
// process has forgotten it together with the agent.
func TestStaleProposals(t *testing.T) {
	network := memnet.New()
	serve(t, network)
	p := start(t, network)
	now := time.Now()
	total := api.MustParseResources("cpus:4;mem:4096")
	agent := allocator.Agent{ID: "a1", Total: total, Offerable: true}
	p.SetAgent(agent)
	p.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"web"}}, Active: true})
	p.Allocator.Allocate(now)
	p.await(func() bool { return p.session.arrived != nil })
	p.RemoveAgent("a1")
	p.SetAgent(agent)
	if late := p.Allocator.Allocate(now); len(late.Offers) != 0 {
		t.Fatalf("offers from before the removal: %v", late.Offers)
	}
	offers := p.Allocate(now).Offers
	if len(offers) != 1 || !offers[0].Resources.Equal(total) {
		t.Fatalf("offers after the removal: %v", offers)
	}
}

// TestIdle: a session over which nothing is sent for a long time stays open. A server that is not configured for it
// takes more than one ping in five minutes for an attack.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		serve(t, network)
		p := start(t, network)
		<-time.After(time.Hour)
		if err := p.Err(); err != nil || len(p.said) != 1 {
			t.Errorf("%v; said were %d things, the first of them %q", err, len(p.said), <-p.said)
		}
	})
}

// TestWrongAnswer: a process that gives wrong answers is as good as away.
func TestWrongAnswer(t *testing.T) {
	network := memnet.New()
	listener, err := network.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	apiv1.RegisterAllocatorServiceServer(server, babbler{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends by Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	half, err := New(allocator.Config{Argument: address})
	if err != nil {
		t.Fatal(err)
	}
	half.DialBy(network.Dial)
	all := make(chan string, 100)
	if p, err := NewPrompt(context.Background(), half, listen(all)); err == nil { // it may have noticed by now
		t.Cleanup(p.Close)
	}
	for said := range all {
		if strings.Contains(said, "it answers run 99, which was not asked for") {
			return
		}
	}
}

// TestAnEndlessAnswer: the parts of an answer that never ends are kept up to a bound. A part for a run that was not
// asked for is refused at once.
func TestAnEndlessAnswer(t *testing.T) {
	half, err := New(allocator.Config{Argument: address})
	if err != nil {
		t.Fatal(err)
	}
	s := half.beginSession()
	s.ask(time.Now())
	part := &apiv1.AllocatorAnswers{Saw: s.run, More: true, Spared: []*apiv1.AllocatorClaim{{FrameworkId: strings.Repeat("f", 200), AgentId: "agent-1"}}}
	if _, err := half.takeMessage(s, &apiv1.AllocatorAnswers{Saw: s.run + 1, More: true}, parts{}); err == nil || !strings.Contains(err.Error(), "not asked for") {
		t.Errorf("the first part for another run: %v", err)
	}
	sofar := parts{bytes: answerBytesMax - 3*proto.Size(part)}
	for i := range 3 {
		if sofar, err = half.takeMessage(s, part, sofar); err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
	}
	if _, err := half.takeMessage(s, part, sofar); err == nil || !strings.Contains(err.Error(), "more than 268435456 bytes") {
		t.Errorf("a part beyond the bound: %v", err)
	}
}

type babbler struct {
	apiv1.UnimplementedAllocatorServiceServer
}

func (babbler) Session(stream apiv1.AllocatorService_SessionServer) error {
	if err := stream.Send(&apiv1.AllocatorAnswers{Saw: 99}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// TestNobodyThere: a process that can't be reached is reported at once, and a Prompt that is closed proposes nothing.
func TestNobodyThere(t *testing.T) {
	network := memnet.New()
	half, err := New(allocator.Config{Argument: address})
	if err != nil {
		t.Fatal(err)
	}
	half.DialBy(network.Dial)
	if _, err := NewPrompt(context.Background(), half, nil); err == nil || !strings.Contains(err.Error(), "the allocator at "+address+" is away") {
		t.Fatalf("nobody serves: %v", err)
	}
	serve(t, network)
	p := start(t, network)
	total := api.MustParseResources("cpus:4;mem:4096")
	p.SetAgent(allocator.Agent{ID: "a1", Total: total, Offerable: true})
	p.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"web"}}, Active: true})
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if offers := p.Allocate(time.Now()).Offers; len(offers) != 0 || p.Err() == nil {
		t.Fatalf("closed, it proposes %v; %v", offers, p.Err())
	}
}

// TestAddress: a wrong address is refused, with the right form in the error.
func TestAddress(t *testing.T) {
	for _, argument := range []string{"", "policy", "policy:"} {
		if _, err := New(allocator.Config{Argument: argument}); err == nil || !strings.Contains(err.Error(), "remote:HOST:PORT") {
			t.Errorf("address %q: %v", argument, err)
		}
	}
	if _, err := allocator.Make("remote:"+net.JoinHostPort("10.0.0.1", "7070"), allocator.Config{}); err != nil {
		t.Error(err)
	}
}
