package intake

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/pause"
)

// Whatever a peer says costs the leader something, also what it refuses. So each connection has so much a second of
// what is dear, and all connections of an address have some times as much together. Who has used it up is not read on
// until it has grown again: the windows of HTTP/2 fill, and the peer itself has to wait. (Protocol rule R34.)

// Expense is something of which there is so much a second.
type Expense int

const (
	// CallsExpense is the reading and stepping of calls, in bytes: what a message takes in memory, and a price
	// for each call by its kind (prices.go).
	CallsExpense Expense = iota
	// StoreExpense is bytes of values that are written to stores, which three disks and two links carry.
	StoreExpense
	// CompileExpense is processor time for constraints that nobody has stated before.
	CompileExpense
	// SessionsExpense is first calls of sessions: each may ask the quorum for something.
	SessionsExpense
	expenses
)

// String is the word for it in metrics and in the log.
func (e Expense) String() string { return [...]string{"calls", "store", "constraints", "sessions"}[e] }

// SessionsPerSecond is how many sessions of an address may begin each second, and SessionsAtOnce how many of them at a time.
const (
	SessionsPerSecond = 64
	SessionsAtOnce    = 256
)

// rates are far above what honest peers need. A framework that launches 5,000 tasks a second and acknowledges all
// their statuses uses some 20 MiB/s of calls (measured: 3.7 KiB a task), an agent with 1,000 tasks comes back with less
// than 8 MiB, and a scheduler keeps some hundred KiB a second in its store.
var rates = [expenses]struct{ connection, address allowance.Rate }{
	CallsExpense:    {bytesPerSecond(64<<20, 128<<20, 2<<20), bytesPerSecond(128<<20, 128<<20, 128<<20)},
	StoreExpense:    {bytesPerSecond(2<<20, 16<<20, 1<<20), bytesPerSecond(4<<20, 16<<20, 16<<20)},
	CompileExpense:  {timePerSecond(50, 250, 100), timePerSecond(200, 1000, 1000)},
	SessionsExpense: {allowance.Rate{}, allowance.Rate{PerSecond: SessionsPerSecond, Most: SessionsAtOnce, First: SessionsAtOnce}},
}

func bytesPerSecond(grows, most, first float64) allowance.Rate {
	return allowance.Rate{PerSecond: grows, Most: most, First: first}
}

// timePerSecond is of milliseconds.
func timePerSecond(grows, most, first float64) allowance.Rate {
	const one = float64(time.Millisecond)
	return allowance.Rate{PerSecond: grows * one, Most: most * one, First: first * one}
}

// address is where peers come from, with what all of them together may use.
type address struct {
	name string
	all  *Addresses

	mu         sync.Mutex                    // guards also the allowances of its connections
	allowances [expenses]allowance.Allowance // guarded by mu
	told       [expenses]time.Time           // when the log told that it is held; guarded by mu
	open       int                           // connections; guarded by all.mu
}

// Addresses are all from which connections are open, or were a moment ago.
type Addresses struct {
	held func(what Expense, who string, wait time.Duration, tell bool) // told of every wait

	mu    sync.Mutex
	known map[string]*address // guarded by mu
	many  int                 // of which it is worth looking through them; guarded by mu
}

// NewAddresses tells held of every wait, and with it whether that is worth a line in the log.
func NewAddresses(held func(what Expense, who string, wait time.Duration, tell bool)) *Addresses {
	return &Addresses{held: held, known: make(map[string]*address)}
}

// addressName is the host of an address; of the sixth version the network, as a host has all of it.
func addressName(from net.Addr) string {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		return from.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		network, _ := ip.WithZone("").Prefix(64) // an address has so many bits
		return network.String()
	}
	return host
}

// connected is the account of a new connection; left ends it.
func (as *Addresses) connected(from net.Addr) *Sender {
	now := time.Now()
	as.mu.Lock()
	defer as.mu.Unlock()
	name := addressName(from)
	a := as.known[name]
	if a == nil {
		a = &address{name: name, all: as}
		for what := range a.allowances {
			a.allowances[what] = allowance.New(rates[what].address, now)
		}
		as.known[name] = a
	}
	a.open++
	s := NewSender()
	s.address = a
	for what := range s.allowances {
		s.allowances[what] = allowance.New(rates[what].connection, now)
	}
	if len(as.known) > max(as.many, knownMin) {
		as.forget(now)
	}
	return s
}

func (as *Addresses) left(s *Sender) {
	as.mu.Lock()
	defer as.mu.Unlock()
	s.address.open--
}

// forget drops those without a connection of whom nothing has to be remembered. Callers hold mu.
func (as *Addresses) forget(now time.Time) {
	for name, a := range as.known { // order: irrelevant because each is looked at by itself
		if a.open == 0 && a.full(now) {
			delete(as.known, name)
		}
	}
	as.many = 2 * len(as.known)
}

func (a *address) full(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for what := range a.allowances {
		if !a.allowances[what].Full(now) {
			return false
		}
	}
	return true
}

// tellHeldEvery is how often the log tells that an address is held for the same.
const tellHeldEvery = time.Minute

// use takes from what the sender's connection and its address have left, and returns how long it is to be held for it.
// Longer than patience: nothing is taken, and it is not served.
func (s *Sender) use(what Expense, amount float64, patience time.Duration) (wait time.Duration, ok bool) {
	if s.address == nil {
		return 0, true
	}
	now := time.Now()
	s.address.mu.Lock()
	own, all := s.allowances[what], s.address.allowances[what]
	wait = max(own.Take(now, amount), all.Take(now, amount))
	if ok = wait <= patience; ok {
		s.allowances[what], s.address.allowances[what] = own, all
	}
	tell := wait > 0 && now.Sub(s.address.told[what]) >= tellHeldEvery
	if tell {
		s.address.told[what] = now
	}
	s.address.mu.Unlock()
	if wait > 0 {
		s.address.all.held(what, s.address.name, min(wait, patience), tell)
	}
	return wait, ok
}

// Pay uses up an amount and waits until nothing is owed; false when ctx ends first.
func (s *Sender) Pay(ctx context.Context, what Expense, amount float64) bool {
	wait, _ := s.use(what, amount, endless)
	return wait == 0 || pause.For(ctx, wait)
}

// endless is longer than anybody can owe.
const endless = time.Duration(1<<63 - 1)

// Charge takes for what has been done already: who sends more of it is held then, also by another connection.
func (s *Sender) Charge(what Expense, amount float64) {
	if s.address == nil || amount == 0 {
		return
	}
	now := time.Now()
	s.address.mu.Lock()
	defer s.address.mu.Unlock()
	s.allowances[what].Charge(now, amount)
	s.address.allowances[what].Charge(now, amount)
}

// PayForSession lets sessions of an address begin as fast as they may: each may ask the quorum for something, as for the
// admission of an agent that nobody knows. Otherwise it says how long it would be until this one may.
func (s *Sender) PayForSession(ctx context.Context, sessions float64) (wait time.Duration, ok bool) {
	wait, soon := s.use(SessionsExpense, sessions, returningWaitMax)
	return wait, soon && (wait == 0 || pause.For(ctx, wait))
}
