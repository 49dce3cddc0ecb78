package intake

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/pause"
)

// Whatever a peer says costs the leader something, also what it refuses. So each connection has so much a second of
// what is dear, and all connections of an address have some times as much together, and so have all of a principal,
// wherever they come from. Who has used it up is not read on until it has grown again: the windows of HTTP/2 fill, and the
// peer itself has to wait. (Protocol rule R34.)

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
	// AnswersExpense is answers that are not read, which have a bound and no rate; see [Answer].
	AnswersExpense
	expenses
)

// String is the word for it in metrics and in the log.
func (e Expense) String() string {
	return [...]string{"calls", "store", "constraints", "sessions", "answers"}[e]
}

// SessionsPerSecond is how many sessions of an address may begin each second, and SessionsAtOnce how many of them at a time.
const (
	SessionsPerSecond = 64
	SessionsAtOnce    = 256
)

// rates are far above what honest peers need. A framework that launches 5,000 tasks a second and acknowledges all
// their statuses uses some 20 MiB/s of calls (measured: 3.7 KiB a task), an agent with 1,000 tasks comes back with less
// than 8 MiB, and a scheduler keeps some hundred KiB a second in its store, which three disks write and sync: of who
// writes more than it has saved up, an hour is still 2 GB. A principal may be everybody's: it has what two addresses
// have, which is more than a leader gets done, and the sessions that begin are its addresses' alone.
var rates = [expenses]struct{ connection, address, principal allowance.Rate }{
	CallsExpense:    {bytesPerSecond(64<<20, 128<<20, 2<<20), bytesPerSecond(128<<20, 128<<20, 128<<20), bytesPerSecond(256<<20, 256<<20, 256<<20)},
	StoreExpense:    {bytesPerSecond(512<<10, 16<<20, 1<<20), bytesPerSecond(1<<20, 16<<20, 16<<20), bytesPerSecond(2<<20, 32<<20, 32<<20)},
	CompileExpense:  {timePerSecond(50, 250, 100), timePerSecond(200, 1000, 1000), timePerSecond(400, 2000, 2000)},
	SessionsExpense: {address: allowance.Rate{PerSecond: SessionsPerSecond, Most: SessionsAtOnce, First: SessionsAtOnce}},
}

func bytesPerSecond(grows, most, first float64) allowance.Rate {
	return allowance.Rate{PerSecond: grows, Most: most, First: first}
}

// timePerSecond is of milliseconds.
func timePerSecond(grows, most, first float64) allowance.Rate {
	const one = float64(time.Millisecond)
	return allowance.Rate{PerSecond: grows * one, Most: most * one, First: first * one}
}

// account is what all connections of an address, or of a principal, may use together.
type account struct {
	name    string
	silence silence

	mu         sync.Mutex
	allowances [expenses]allowance.Allowance // guarded by mu
	told       [expenses]time.Time           // when the log told that it is held; guarded by mu
	open       int                           // connections; guarded by its accounts' mu
	unread     *Budget                       // of bytes of answers that are not read
	answers    []*unreadAnswer               // the oldest first; guarded by mu
}

// accounts are of all that have connections, or had them a moment ago.
type accounts struct {
	rate   func(Expense) allowance.Rate // of each of them
	unread int                          // bytes of answers that each of them may leave unread

	mu    sync.Mutex
	known map[string]*account // guarded by mu
	many  int                 // of which it is worth looking through them; guarded by mu
}

func newAccounts(unread int, rate func(Expense) allowance.Rate) *accounts {
	return &accounts{rate: rate, unread: unread, known: make(map[string]*account)}
}

// enter counts one more connection to an account; leave takes it back.
func (as *accounts) enter(name string, now time.Time) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.known[name]
	if a == nil {
		a = &account{name: name, silence: newSilence(), unread: NewBudget(as.unread)}
		for what := range a.allowances {
			a.allowances[what] = allowance.New(as.rate(Expense(what)), now)
		}
		as.known[name] = a
	}
	a.open++
	if len(as.known) > max(as.many, knownMin) {
		as.forget(now)
	}
	return a
}

func (as *accounts) leave(a *account) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.open--
}

// forget drops those without a connection of whom nothing has to be remembered. Callers hold mu.
func (as *accounts) forget(now time.Time) {
	for name, a := range as.known { // order: irrelevant because each is looked at by itself
		if a.open == 0 && a.full(now) {
			delete(as.known, name)
		}
	}
	as.many = 2 * len(as.known)
}

func (a *account) full(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for what := range a.allowances {
		if !a.allowances[what].Full(now) {
			return false
		}
	}
	return true
}

// isNews says whether the log is to tell that somebody is held for it.
func (a *account) isNews(what Expense, now time.Time) bool {
	if now.Sub(a.told[what]) < tellHeldEvery {
		return false
	}
	a.told[what] = now
	return true
}

// Held is that a peer was held, or refused.
type Held struct {
	Of Expense
	// Address or Principal is who has used up what it may: that of both which has to wait for longer.
	Address, Principal string
	Wait               time.Duration
	Closed             bool // its connection was closed, as it has not read an answer
	News               bool // worth a line in the log
}

// Peers are those who have connections, by where they come from and whose they are.
type Peers struct {
	held                  func(Held) // told of every wait
	Unread                Unread
	addresses, principals *accounts
}

// NewPeers tells held of every wait.
func NewPeers(held func(Held)) *Peers {
	return &Peers{
		held:       held,
		addresses:  newAccounts(unreadAddressMax, func(what Expense) allowance.Rate { return rates[what].address }),
		principals: newAccounts(unreadPrincipalMax, func(what Expense) allowance.Rate { return rates[what].principal }),
	}
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

// connected is a new connection; left ends it.
func (ps *Peers) connected(from net.Addr) *Sender {
	now := time.Now()
	s := NewSender()
	s.peers, s.address, s.end = ps, ps.addresses.enter(addressName(from), now), func() {}
	for what := range s.allowances {
		s.allowances[what] = allowance.New(rates[what].connection, now)
	}
	return s
}

func (ps *Peers) left(s *Sender) {
	s.address.mu.Lock()
	principal := s.principal
	s.gone = true
	s.address.mu.Unlock()
	s.giveAnswers()
	ps.addresses.leave(s.address)
	if principal != nil {
		ps.principals.leave(principal)
	}
}

// BelongsTo says whose a connection is, as its certificate says. It is asked at each call and answered once; "": nobody's.
func (s *Sender) BelongsTo(principal string) {
	if s.address == nil || principal == "" {
		return
	}
	s.address.mu.Lock()
	defer s.address.mu.Unlock()
	if s.principal == nil && !s.gone {
		s.principal = s.peers.principals.enter(principal, time.Now())
	}
}

// callWaitMax is how long a call with one answer is held at most.
const callWaitMax = 3 * time.Second

// tellHeldEvery is how often the log tells that somebody is held for the same.
const tellHeldEvery = time.Minute

// use takes from what the sender's connection, its address and its principal have left, and returns how long it is to be
// held for it. Longer than patience: nothing is taken, and it is not served.
func (s *Sender) use(what Expense, amount float64, patience time.Duration) (wait time.Duration, ok bool) {
	if s.address == nil {
		return 0, true
	}
	wait, who, news := s.take(time.Now(), what, amount, patience)
	if wait > 0 {
		s.tell(Held{Of: what, Wait: min(wait, patience), News: news}, who)
	}
	return wait, wait <= patience
}

// tell says who is held.
func (s *Sender) tell(held Held, who *account) {
	if held.Address = who.name; who != s.address {
		held.Address, held.Principal = "", who.name
	}
	s.peers.held(held)
}

// take is use without telling anybody: who has used up what it may, and whether that is news.
func (s *Sender) take(now time.Time, what Expense, amount float64, patience time.Duration) (wait time.Duration, who *account, news bool) {
	s.address.mu.Lock()
	defer s.address.mu.Unlock()
	own, all, who := s.allowances[what], s.address.allowances[what], s.address
	wait = max(own.Take(now, amount), all.Take(now, amount))
	if p := s.principal; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		its := p.allowances[what]
		if longer := its.Take(now, amount); longer > wait {
			wait, who = longer, p
		}
		if wait <= patience {
			p.allowances[what] = its
		}
	}
	if wait <= patience {
		s.allowances[what], s.address.allowances[what] = own, all
	}
	return wait, who, wait > 0 && who.isNews(what, now)
}

// Pay uses up an amount and waits until nothing is owed; false when ctx ends first.
func (s *Sender) Pay(ctx context.Context, what Expense, amount float64) bool {
	wait, _ := s.use(what, amount, endless)
	return wait == 0 || pause.For(ctx, wait)
}

// owe uses up an amount and waits for nothing: Pay does, before there is more.
func (s *Sender) owe(what Expense, amount float64) {
	if s.address == nil {
		return
	}
	if _, who, news := s.take(time.Now(), what, amount, endless); news {
		s.tell(Held{Of: what, News: true}, who) // it is held from now on
	}
}

// payForCall is Pay for a call with one answer: whoever makes it waits for that. It is refused when it would be long until it
// may be made.
func (s *Sender) payForCall(ctx context.Context, amount float64) error {
	wait, soon := s.use(CallsExpense, amount, callWaitMax)
	switch {
	case !soon:
		wait = wait.Round(time.Second)
		return api.E("master.call", api.Limit, "", fmt.Errorf(
			"this connection, its address or its principal makes more calls than it may; come back in %v", wait)).RetryIn(wait)
	case wait > 0 && !pause.For(ctx, wait):
		return ctx.Err()
	}
	return nil
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
	if p := s.principal; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.allowances[what].Charge(now, amount)
	}
}

// PayForSession lets sessions of an address begin as fast as they may: each may ask the quorum for something, as for the
// admission of an agent that nobody knows. Otherwise it says how long it would be until this one may.
func (s *Sender) PayForSession(ctx context.Context, sessions float64) (wait time.Duration, ok bool) {
	wait, soon := s.use(SessionsExpense, sessions, returningWaitMax)
	return wait, soon && (wait == 0 || pause.For(ctx, wait))
}
