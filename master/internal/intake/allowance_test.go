package intake

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// heldTimes counts waits, and lines of the log about them.
type heldTimes struct{ waits, lines atomic.Int64 }

func (h *heldTimes) held(held Held) {
	if h.waits.Add(1); held.News {
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

// TestPeersAreHeld (R34): a peer that has used up its connection's allowance is held until the allowance has grown
// again, and so is one that uses many connections of one address. No other peer is held.
func TestPeersAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldTimes
		all, rate := NewPeers(h.held), rates[CallsExpense]
		greedy, honest := all.connected(from("10.0.0.1")), all.connected(from("10.0.0.2"))
		pay := func(s *Sender, amount float64) time.Duration {
			return took(func() { s.Pay(t.Context(), CallsExpense, amount) })
		}
		if held := pay(greedy, rate.connection.First); held != 0 {
			t.Errorf("who begins is held for %v", held)
		}
		if held := pay(greedy, rate.connection.PerSecond); held != time.Second {
			t.Errorf("a second's worth is held for %v", held)
		}
		if held := pay(honest, rate.connection.First) + pay(NewSender(), 1e12); held != 0 || h.waits.Load() != 1 || h.lines.Load() != 1 {
			t.Errorf("others are held for %v; %d waits, %d lines", held, h.waits.Load(), h.lines.Load())
		}
		together := took(func() {
			for i := range 100 { // ever new connections of one address
				s := all.connected(from("10.0.0.3"))
				s.Pay(t.Context(), CallsExpense, rate.address.First/20)
				if all.left(s); i%2 == 0 {
					s.Charge(CallsExpense, rate.address.First/20)
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
		if greedy.Pay(ctx, CallsExpense, 1e9) {
			t.Error("its stream is gone, and it was let on")
		}
	})
}

// TestPrincipalsAreHeld (R34): a principal that sends too much over connections of many addresses is held on all of
// them together, and named. A call that would have to wait for long is refused, and told when to retry. Another
// principal, and a peer without one, are not held.
func TestPrincipalsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Held
		all, rate := NewPeers(func(h Held) { told = append(told, h) }), rates[CallsExpense]
		of := func(ip, principal string) *Sender {
			s := all.connected(from(ip))
			s.BelongsTo(principal)
			return s
		}
		for i := range 4 { // each says less than an address may
			s := of(fmt.Sprintf("10.0.0.%d", i), "greedy")
			for _, share := range []float64{rate.connection.First, rate.principal.First/4 - rate.connection.First} {
				s.use(CallsExpense, share, endless)
			}
			s.BelongsTo("somebody else") // only the first principal counts
		}
		told = nil
		greedy := of("10.0.1.1", "greedy")
		share := rate.connection.First / rate.principal.PerSecond * float64(time.Second)
		if held := took(func() { greedy.Pay(t.Context(), CallsExpense, rate.connection.First) }); held != time.Duration(share) {
			t.Errorf("what a connection begins with is held for %v", held)
		}
		if len(told) != 1 || told[0].Principal != "greedy" || told[0].Address != "" || !told[0].News {
			t.Errorf("it is told as %+v", told)
		}
		of("10.0.1.2", "greedy").use(CallsExpense, 4*rate.principal.PerSecond, endless)
		err := of("10.0.1.3", "greedy").payForCall(t.Context(), LookPrice)
		if wait := api.RetryAfter(err); !api.Is(err, api.Limit) || wait < callWaitMax || wait > 5*time.Second {
			t.Errorf("a call that would wait for long: %v, to come back in %v", err, wait)
		}
		told = nil
		for _, other := range []string{"honest", ""} {
			s := of("10.0.2.1", other)
			if held := took(func() { s.Pay(t.Context(), CallsExpense, rate.connection.First) }); held != 0 || len(told) != 0 {
				t.Errorf("principal %q is held for %v: %+v", other, held, told)
			}
		}
	})
}

// TestPrincipalsAreForgotten (R34): when all their connections have ended, including one that ends while its principal
// is being looked up.
func TestPrincipalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewPeers(new(heldTimes).held)
		for i := range 1000 {
			s := all.connected(from("10.0.0.1"))
			if i%2 == 0 {
				s.BelongsTo(fmt.Sprint("p", i))
			}
			all.left(s)
			s.BelongsTo(fmt.Sprint("late", i))
		}
		if n := len(all.principals.known); n > 4*knownMin {
			t.Errorf("%d principals are remembered", n)
		}
	})
}

// TestAddressesAreForgotten (R34): a peer that comes from ever new addresses leaves nothing behind. A host with IPv6
// counts as one address, although it has a whole network of them.
func TestAddressesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewPeers(new(heldTimes).held)
		kept := all.connected(from("192.168.0.1"))
		for i := range 10_000 {
			all.left(all.connected(from(fmt.Sprintf("10.0.%d.%d", i/250, i%250))))
			if len(all.addresses.known) > 4*knownMin {
				t.Fatalf("%d addresses are remembered", len(all.addresses.known))
			}
		}
		if all.addresses.known["192.168.0.1"] != kept.address {
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
		q, on, by := NewRequests(NewDesk()), &keeper{let: make(chan struct{})}, NewPeers(new(heldTimes).held).connected(from("10.0.0.1"))
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
		if held := time.Since(began); held < 28*time.Second || held > 40*time.Second { // what is read last is paid for later
			t.Errorf("20 megabytes are held for %v", held)
		}
	})
}

// TestNewConstraintsAreHeld (R34): a peer that has used up its processor time for constraints is held; meanwhile those
// of others are compiled.
func TestNewConstraintsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, all := NewPrograms(), NewPeers(new(heldTimes).held)
		greedy, honest := all.connected(from("10.0.0.1")), all.connected(from("10.0.0.2"))
		demand := func(text string) []protocol.NumberedCall {
			return []protocol.NumberedCall{{Number: 1, Call: protocol.SetDemand{Demand: api.Demand{Shapes: []api.Shape{{Constraint: text}}}}}}
		}
		greedy.use(CompileExpense, rates[CompileExpense].connection.First+rates[CompileExpense].connection.PerSecond, endless)
		over := make(chan time.Duration)
		go func() {
			over <- took(func() { p.Prepare(t.Context(), greedy, demand(`id != "a"`)) })
		}()
		synctest.Wait()
		if held := took(func() { p.Prepare(t.Context(), honest, demand(`id != "b"`)) }); held != 0 {
			t.Errorf("the honest one is held for %v", held)
		}
		if held := <-over; held != time.Second {
			t.Errorf("the greedy one is held for %v", held)
		}
	})
}

func TestRefusalPrice(t *testing.T) {
	if RefusalPrice(0, 10, 1000) != 0 || RefusalPrice(10, 10, 1000) != 10*refusedPrice+refusedTimes*1000 || RefusalPrice(5, 10, 1000) != 5*refusedPrice+refusedTimes*500 {
		t.Error("what is refused is charged by its share of the part")
	}
}
