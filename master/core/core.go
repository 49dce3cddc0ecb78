// Package core makes the leader's decisions: who is offered what, which answers
// stand, what becomes of tasks, agents and frameworks. The master's shell owns the
// world; the core is a value that turns events into effects.
//
// It is pure: no clock, goroutine, lock, I/O or randomness; the same events give the
// same effects, byte for byte. A broken invariant panics with invariant.Broken, which
// ends this leadership (R18).
package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// Config is what the core is made from. Zero fields mean the documented defaults.
type Config struct {
	Master  api.MasterID
	Version string   // of this master, for R24. Default: a neighbour of everybody
	Masters []string // gRPC addresses that agents and schedulers are told; from the registry when empty
	Client  string   // identity of this leadership's proposals (R17): master and term

	HeartbeatInterval time.Duration // of agents and schedulers. Default 1 s
	SessionTimeout    time.Duration // without a sign of life the session is over. Default 5 s
	TombstoneAfter    time.Duration // of silence an agent is taken for dead. Default 30 s
	GoneAfter         time.Duration // as TOMBSTONE an agent is marked gone. Default 7 days; negative = never
	// GoneAfterOf are the classes of agents for which another time counts; the first that an agent is of.
	GoneAfterOf     []GoneAfter
	OfferTimeout    time.Duration // an offer may be held. Default 30 s
	RecoveryHold    time.Duration // R20. Default 10 s
	FailoverTimeout time.Duration // of frameworks that say none. Default 10 min
	PreemptionGrace time.Duration // between an inverse offer and the kill. Default 10 s
	StoreBytesMax   int64         // of all frameworks' stores together. Default and most 1 GiB
	// RevocableMargin is the part of what tasks asked for, in percent, that is never offered as
	// revocable, however little they use (R28). Default 10. Small uses more of the cluster and
	// revokes more often; 100 offers nothing.
	RevocableMargin int

	// Compile makes a program of a constraint; the same text always the same. Default
	// constraint.Compile.
	Compile func(expr string) (*constraint.Program, error)

	// Debug asks for the decisions of every day too: offers, launches, statuses. At
	// thousands of tasks a second they cost more than the decisions. Default: not.
	Debug bool
}

func (c Config) withDefaults() Config {
	fill := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	fill(&c.HeartbeatInterval, time.Second)
	fill(&c.SessionTimeout, 5*time.Second)
	fill(&c.TombstoneAfter, 30*time.Second)
	fill(&c.GoneAfter, 7*24*time.Hour)
	fill(&c.OfferTimeout, 30*time.Second)
	fill(&c.RecoveryHold, 10*time.Second)
	fill(&c.FailoverTimeout, 10*time.Minute)
	fill(&c.PreemptionGrace, 10*time.Second)
	if c.RevocableMargin == 0 {
		c.RevocableMargin = 10
	}
	if c.Compile == nil {
		c.Compile = constraint.Compile
	}
	if c.Client == "" {
		c.Client = string(c.Master)
	}
	return c
}

// Core is the leader's mind for one term. Not safe for concurrent use: the shell's
// loop owns it.
type Core struct {
	config   Config
	term     api.Term
	registry *registry.State // own copy, as far as the commits it was told of
	policy   allocator.Allocator

	now   time.Time // of the event at hand
	came  time.Time // when it came to this master
	began time.Time // of this leadership
	// lastHeard is the latest moment that the registry knew when the leadership began.
	lastHeard time.Time
	out       []Effect // of the event at hand

	agents      map[api.AgentID]*agent         // the admitted ones
	links       map[Conn]*link                 // agents' streams
	frameworks  map[api.FrameworkID]*framework // until removed and nothing of them runs
	standbys    map[string]api.FrameworkID     // living frameworks whose name is their identity (R6)
	sessions    map[Conn]*session              // schedulers' streams
	seekers     map[string]*session            // standbys whose proposal is on its way, by name
	waiting     []*session                     // standbys in the order of their arrival
	subscribing subscribing                    // sessions that ask the registry to admit them
	offers      map[api.OfferID]*offer         // open
	expiring    []*offer                       // by deadline; answered ones are skipped
	freed       freed                          // since the policy was last asked
	inverses    map[api.OfferID]*inverse       // open
	owing       []*session                     // to whom something is still to be told
	pending     map[proposalKey]proposal       // proposed, outcome not known yet
	deadlines   deadlines
	awaited     map[api.AgentID]bool     // for whom the recovery hold waits (R20)
	returning   []api.AgentID            // may know tasks of terms before; those in front that are back are skipped (R8)
	takers      map[api.FrameworkID]bool // frameworks that take revocable resources
	hold        *deadline
	expiry      *deadline // of what the registry remembers of the past
	overdue     overdue
	hosts       map[string]map[api.AgentID]bool // agents by hostname
	versions    view.RefusedVersions
	stubs       int // of all agents

	voices    uint64 // words of agents about what is not theirs, refused in this term
	proposals uint64 // counters of this term
	dropped   uint64 // counts sessions that have ended
	mastersAt uint64 // counts changes of the masters' addresses
	opened    uint64
	offered   uint64
	launched  uint64
}

// New makes the core of a leader whose registry is as given (the core keeps its own
// copy) and who leads in this term. Nothing is known yet but what the registry says.
func New(config Config, state *registry.State, term api.Term, policy allocator.Allocator, now time.Time) *Core {
	c := &Core{
		config:      config.withDefaults(),
		term:        term,
		registry:    state.Clone(),
		policy:      policy,
		now:         now,
		began:       now,
		agents:      make(map[api.AgentID]*agent),
		links:       make(map[Conn]*link),
		frameworks:  make(map[api.FrameworkID]*framework),
		standbys:    make(map[string]api.FrameworkID),
		sessions:    make(map[Conn]*session),
		seekers:     make(map[string]*session),
		subscribing: newSubscribing(),
		offers:      make(map[api.OfferID]*offer),
		freed:       make(freed),
		inverses:    make(map[api.OfferID]*inverse),
		pending:     make(map[proposalKey]proposal),
		awaited:     make(map[api.AgentID]bool),
		hosts:       make(map[string]map[api.AgentID]bool),
		takers:      make(map[api.FrameworkID]bool),
		hold:        newDeadline(holdOver{}),
		expiry:      newDeadline(expiryTurn{}),
		overdue:     overdue{next: newDeadline(goneTurn{})},
	}
	c.recoverRoles()
	c.recoverFrameworks()
	c.recoverAgents()
	c.beginHold()
	c.beginExpiry()
	c.out = nil
	return c
}

// Step takes one event. The effects are performed before the next Allocate's.
func (c *Core) Step(event Event) []Effect {
	c.now, c.came, c.out = event.At, event.Came, nil
	if c.came.IsZero() {
		c.came = event.At
	}
	c.happen(event.What)
	c.payOwed()
	return c.out
}

func (c *Core) happen(what Happening) {
	switch what := what.(type) {
	case SchedulerOpened:
		c.schedulerOpened(what)
	case SchedulerCalled:
		c.schedulerCalled(what)
	case SchedulerClosed:
		c.schedulerClosed(what)
	case AgentOpened:
		c.agentOpened(what)
	case AgentCalled:
		c.agentCalled(what)
	case AgentClosed:
		c.agentClosed(what)
	case Committed:
		c.committed(what)
	case ProposalLost:
		c.proposalLost(what)
	case ProposalRefused:
		c.proposalRefused(what)
	case Requested:
		c.requested(what)
	case Woken:
		c.woken()
	case Away:
		c.away(what.Gap)
	}
}

// Allocate lets the policy run once after a batch of events, and returns the offers.
func (c *Core) Allocate(now time.Time) []Effect {
	c.now, c.out = now, nil
	if c.allocate() { // who waits for what was taken back is offered it at once
		c.allocate()
	}
	return c.out
}

// allocate runs the policy once and reports whether kept offers were taken back.
func (c *Core) allocate() (tookBack bool) {
	allocation := c.policy.Allocate(c.now)
	c.makeOffers(allocation.Offers)
	c.served(allocation.Offers)
	c.spared(allocation.Spared)
	c.askBack(allocation.Inverse)
	return c.takeBackKept(allocation.Inverse)
}

// Wake is when the core wants to be woken, zero for never. Asked after every batch.
func (c *Core) Wake() time.Time {
	return soonest(c.deadlines.next(), c.nextExpiry(), c.nextPay(), c.policy.Wake())
}

// emit adds an effect to those of the event at hand.
func (c *Core) emit(effect Effect) { c.out = append(c.out, effect) }
