package intake

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/strangers"
)

// Everything that a peer says costs the leader something, even if it is refused. So each connection has an allowance
// per second of what is expensive. All connections of an address together have some times as much, and so have all
// connections of a principal, wherever they come from. When an allowance is used up, nothing more is read from the
// connection until the allowance has grown again. Then the windows of HTTP/2 fill up, and the peer itself has to wait.
// (Protocol rule R34.)

// Expense is a kind of cost that has an allowance.
type Expense int

const (
	// CallsExpense is for reading and handling calls, in bytes: what a message takes in memory, plus a price for each
	// call by its kind (prices.go).
	CallsExpense Expense = iota
	// StoreExpense is for bytes of values that are written to stores. Three disks and two links carry each of them.
	StoreExpense
	// CompileExpense is for processor time that compiles constraints that nobody has stated before.
	CompileExpense
	// SessionsExpense is for first calls of sessions, because each may ask the quorum for something.
	SessionsExpense
	// AnswersExpense is for answers that are not read. They have a bound and no rate; see [Answer].
	AnswersExpense
	expenses
)

// String returns the word for it in metrics and in the log.
func (e Expense) String() string {
	return [...]string{"calls", "store", "constraints", "sessions", "answers"}[e]
}

// SessionsPerSecond is how many sessions of an address may begin each second on average, SessionsAtOnce how many at the
// same time.
const (
	SessionsPerSecond = 64
	SessionsAtOnce    = 256
)

// rates are far above what honest peers need. A framework that launches 5,000 tasks a second and acknowledges all their
// statuses uses about 20 MiB/s of calls (measured: 3.7 KiB a task). An agent with 1,000 tasks comes back with less than
// 8 MiB. A scheduler writes some hundred KiB a second to its store, which three disks write and sync; a scheduler that
// writes more than it has saved up still writes 2 GB an hour. Everybody may be the same principal, so a principal has
// as much as two addresses, which is more than a leader can handle. The rate of new sessions is bound only by address.
var rates = [expenses]struct{ connection, address, principal allowance.Rate }{
	CallsExpense:    {bytesPerSecond(64<<20, 128<<20, 2<<20), bytesPerSecond(128<<20, 128<<20, 128<<20), bytesPerSecond(256<<20, 256<<20, 256<<20)},
	StoreExpense:    {bytesPerSecond(512<<10, 16<<20, 1<<20), bytesPerSecond(1<<20, 16<<20, 16<<20), bytesPerSecond(2<<20, 32<<20, 32<<20)},
	CompileExpense:  {timePerSecond(50, 250, 100), timePerSecond(200, 1000, 1000), timePerSecond(400, 2000, 2000)},
	SessionsExpense: {address: allowance.Rate{PerSecond: SessionsPerSecond, Most: SessionsAtOnce, First: SessionsAtOnce}},
}

func bytesPerSecond(grows, most, first float64) allowance.Rate {
	return allowance.Rate{PerSecond: grows, Most: most, First: first}
}

// timePerSecond takes its arguments in milliseconds.
func timePerSecond(grows, most, first float64) allowance.Rate {
	const one = float64(time.Millisecond)
	return allowance.Rate{PerSecond: grows * one, Most: most * one, First: first * one}
}

// account holds what all connections of an address, or of a principal, may use together.
type account struct {
	name    string
	silence silence

	mu         sync.Mutex
	allowances [expenses]allowance.Allowance // guarded by mu
	told       [expenses]time.Time           // when the log last said that it is held; guarded by mu
	open       int                           // open connections; guarded by its accounts' mu
	unread     *Budget                       // for bytes of answers that are not read
	answers    []*unreadAnswer               // answers that are not read, the oldest first; guarded by mu
}

// accounts holds the accounts of all addresses, or all principals, that have connections or had them recently.
type accounts struct {
	rate   func(Expense) allowance.Rate // the rate of each account
	unread int                          // how many bytes of answers each account may leave unread

	mu    sync.Mutex
	known map[string]*account // guarded by mu
	many  int                 // at how many accounts to look for those to forget; guarded by mu
}

func newAccounts(unread int, rate func(Expense) allowance.Rate) *accounts {
	return &accounts{rate: rate, unread: unread, known: make(map[string]*account)}
}

// enter counts one more connection to an account; leave takes that back.
func (as *accounts) enter(name string, now time.Time) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.known[name]
	if a == nil {
		a = &account{
			name:    name,
			silence: silence{strangers.New(silentStreamsMax), strangers.New(silentConnectionsMax)},
			unread:  NewBudget(as.unread),
		}
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

// forget removes accounts that have no connection and whose allowances are full. Callers hold mu.
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

// isNews reports whether the log should say that the account is held for this expense.
func (a *account) isNews(what Expense, now time.Time) bool {
	if now.Sub(a.told[what]) < tellHeldEvery {
		return false
	}
	a.told[what] = now
	return true
}

// Held describes that a peer was held, or refused.
type Held struct {
	Of Expense
	// Address or Principal names the account that is used up. If both are, it is the one that must wait longer.
	Address, Principal string
	Wait               time.Duration
	Closed             bool // the connection was closed because its peer did not read an answer
	News               bool // the log should say it
}

// Peers keeps the accounts of all peers that have connections, by address and by principal.
type Peers struct {
	held                  func(Held) // called for every wait
	Unread                Unread
	addresses, principals *accounts
}

// NewPeers makes the accounts. It calls held for every wait.
func NewPeers(held func(Held)) *Peers {
	return &Peers{
		held:       held,
		addresses:  newAccounts(unreadAddressMax, func(what Expense) allowance.Rate { return rates[what].address }),
		principals: newAccounts(unreadPrincipalMax, func(what Expense) allowance.Rate { return rates[what].principal }),
	}
}

// connected adds a new connection; left removes it.
func (ps *Peers) connected(from net.Addr) *Sender {
	now := time.Now()
	s := NewSender()
	s.peers, s.address, s.end = ps, ps.addresses.enter(allowance.SourceOf(from), now), func() {}
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

// BelongsTo says to which principal a connection belongs, according to its certificate. It is called for each call, and
// only the first principal counts; "" means none.
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

// tellHeldEvery is how often the log says that the same peer is held for the same expense.
const tellHeldEvery = time.Minute

// use takes an amount from the allowances of the sender's connection, address and principal, and returns for how long
// the sender is to be held. If that is longer than patience, nothing is taken and the sender is not to be served.
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

// tell reports which account is held.
func (s *Sender) tell(held Held, who *account) {
	if held.Address = who.name; who != s.address {
		held.Address, held.Principal = "", who.name
	}
	s.peers.held(held)
}

// take is use without reporting. It also returns which account is used up, and whether the log should say so.
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

// Pay takes an amount and waits until nothing is owed; it returns false when ctx ends first.
func (s *Sender) Pay(ctx context.Context, what Expense, amount float64) bool {
	wait, _ := s.use(what, amount, endless)
	return wait == 0 || pause.For(ctx, wait)
}

// owe takes an amount without waiting. The next Pay waits for it.
func (s *Sender) owe(what Expense, amount float64) {
	if s.address == nil {
		return
	}
	if _, who, news := s.take(time.Now(), what, amount, endless); news {
		s.tell(Held{Of: what, News: true}, who) // the sender is held from now on
	}
}

// payForCall is Pay for a call with one answer, whose caller is waiting. It refuses the call if it would have to wait
// for more than callWaitMax.
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

// Charge takes an amount for what has already been done. The sender is held before its next call, also on another
// connection.
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

// PayForSession lets sessions of an address begin at the allowed rate, because each may ask the quorum for something,
// such as the admission of an unknown agent. When the wait would be too long it returns false, and how long it would
// be.
func (s *Sender) PayForSession(ctx context.Context, sessions float64) (wait time.Duration, ok bool) {
	wait, soon := s.use(SessionsExpense, sessions, returningWaitMax)
	return wait, soon && (wait == 0 || pause.For(ctx, wait))
}
