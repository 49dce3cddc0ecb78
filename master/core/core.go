// Package core makes the leader's decisions: who is offered what, which answers are valid, what becomes of tasks,
// agents and frameworks. The master's shell does the I/O; the core is a value that turns events into effects.
//
// It is pure: no clock, goroutine, lock, I/O or randomness; the same events give the same effects, byte for byte. A
// broken invariant panics with invariant.Broken, which ends this leadership (R18).
package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/value"
	"github.com/tenderhq/tender/internal/wallclock"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/expiry"
	"github.com/tenderhq/tender/master/core/ledger"
	"github.com/tenderhq/tender/master/core/principals"
	"github.com/tenderhq/tender/master/core/receipts"
	"github.com/tenderhq/tender/master/registry"
)

// Config is what a core is made from. Zero fields mean the documented defaults.
type Config struct {
	Master api.MasterID
	// Version is this master's. A peer whose version is too far from it is refused (R24). Default: every version is
	// accepted.
	Version string
	Client  string // identity of this leadership's proposals (R17): master and term

	HeartbeatInterval time.Duration // between heartbeats of agents and schedulers. Default 1 s
	SessionTimeout    time.Duration // a session that is silent for so long is over. Default 5 s
	TombstoneAfter    time.Duration // an agent that is silent for so long is taken for dead. Default 30 s
	// GoneAfter is how long an agent may be a TOMBSTONE before it is marked gone. Default 7 days; negative = never.
	GoneAfter time.Duration
	// GoneAfterOf lists classes of agents that have another GoneAfter. The first class to which an agent belongs
	// counts.
	GoneAfterOf     []GoneAfter
	OfferTimeout    time.Duration // how long an offer may be held. Default 30 s
	RecoveryHold    time.Duration // how long roles under a limit wait for agents after a failover (R20). Default 10 s
	FailoverTimeout time.Duration // for frameworks that name none. Default 10 min
	PreemptionGrace time.Duration // between an inverse offer and the kill. Default 10 s
	StoreBytesMax   int64         // of all frameworks' stores together. Default and maximum 1 GiB
	// Principals bounds what the frameworks of one principal may have together. (Protocol rule R34.)
	Principals principals.Limits
	// RevocableMargin is the percentage of what tasks asked for that is never offered as revocable, however little they
	// use (R28). Default 10. A small value uses more of the cluster and revokes more often; 100 offers nothing.
	RevocableMargin int

	// ReceiptKey is the cluster's key that signs launches (R40). If it is empty, the cluster does not check identities
	// and launches carry no receipts.
	ReceiptKey []byte

	// Compile compiles a constraint. It must return the same result for the same text. Default constraint.Compile.
	Compile func(expr string) (*constraint.Program, error)

	// Debug asks for log lines about routine decisions too: offers, launches, statuses. At thousands of tasks a second
	// the lines cost more than the decisions. Default false.
	Debug bool
}

// GoneAfter says for how long agents of a class may be a TOMBSTONE before they are marked gone.
type GoneAfter struct {
	Attribute, Value string // agents of the class have this attribute (api.Agent.Has)
	After            time.Duration
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

// Core is everything that a leader knows in one term. Its state is divided into rooms that own their parts of it. Only
// Core knows all rooms, and it hands each event to the room that it concerns. A room knows only the rooms that it
// builds on, so calls between rooms run in one direction. Core is not safe for concurrent use: the shell's loop owns
// it.
type Core struct {
	*base

	proposals   *proposals
	offers      *offers
	kills       *kills
	usage       *usage
	answers     *answers
	inverses    *inverses
	maintenance *maintenance
	inventory   *inventory
	operations  *operations
	agents      *agents
	sessions    *sessions

	past       expiry.Past
	expiryTurn *deadline // when the registry is next searched for what it may forget
}

// New makes the core of a leader with this registry and term. The core clones the registry. At first it knows nothing
// but what the registry says.
func New(config Config, state *registry.State, term api.Term, policy allocator.Allocator, now time.Time) *Core {
	c := newRooms(&base{
		config:        config.withDefaults(),
		term:          term,
		registry:      state.Clone(),
		policy:        policy,
		now:           now,
		calendar:      wallclock.Began(now),
		agentByID:     make(map[api.AgentID]*agent),
		frameworkByID: make(map[api.FrameworkID]*framework),
		sessionByConn: make(map[Conn]*session),
		shares:        principals.New(config.Principals),
		accounts:      newAccounts(state, now),
	})
	if len(c.config.ReceiptKey) > 0 {
		c.receipts.mark = receipts.Mark(c.config.ReceiptKey)
	}
	c.offers.recoverRoles()
	c.sessions.recoverFrameworks()
	c.agents.recoverAgents()
	c.agents.hold.beginHold()
	c.past = expiry.Of(c.registry, now)
	c.deadlines.Set(c.expiryTurn, now.Add(expiry.Pause))
	c.out, c.changes = nil, nil
	c.note(change.Record{Kind: change.Election, What: change.Won, Name: term.String(), Why: "master " + string(c.config.Master) + " leads from now on"})
	return c
}

// newRooms builds the rooms, and gives each room those that it calls.
func newRooms(b *base) *Core {
	proposals := &proposals{base: b, pending: make(map[proposalKey]proposal)}
	standing := &standing{base: b, takers: make(map[api.FrameworkID]bool)}
	offers := &offers{base: b, open: make(map[api.OfferID]*offer), freed: make(freed)}
	kills := &kills{base: b, proposals: proposals}
	usage := &usage{base: b, standing: standing, offers: offers}
	answers := &answers{base: b}
	inverses := &inverses{base: b, offers: offers, kills: kills, open: make(map[api.OfferID]*inverse)}
	maintenance := &maintenance{base: b, proposals: proposals, standing: standing, offers: offers, inverses: inverses}
	frameworks := &frameworks{base: b, usage: usage}
	executors := &executors{base: b, standing: standing, offers: offers, frameworks: frameworks}
	tasks := &tasks{
		base: b, standing: standing, offers: offers, kills: kills, usage: usage, answers: answers,
		maintenance: maintenance, frameworks: frameworks, executors: executors,
	}
	demands := &demands{base: b}
	inventory := &inventory{base: b, proposals: proposals, standing: standing, offers: offers, hosts: make(map[string]map[api.AgentID]bool), reserved: ledger.Tally{}}
	operations := &operations{
		base: b, proposals: proposals, standing: standing, offers: offers, kills: kills,
		frameworks: frameworks, executors: executors, tasks: tasks, demands: demands, inventory: inventory,
	}
	hold := &hold{base: b, awaited: make(map[api.AgentID]bool), silent: make(map[api.AgentID]bool), deadline: newDeadline(holdOver{})}
	agents := &agents{
		base: b, proposals: proposals, standing: standing, offers: offers, kills: kills, usage: usage,
		answers: answers, inverses: inverses, maintenance: maintenance, frameworks: frameworks,
		executors: executors, tasks: tasks, inventory: inventory, hold: hold,
		goneTurn: newDeadline(goneTurn{}), links: make(map[Conn]*link),
	}
	sessions := &sessions{
		base: b, proposals: proposals, offers: offers, answers: answers, inverses: inverses,
		maintenance: maintenance, frameworks: frameworks, executors: executors, tasks: tasks, demands: demands,
		operations: operations, places: admission.NewPlaces[*session](), lines: admission.NewLines[*session](),
	}
	return &Core{
		base: b, proposals: proposals, offers: offers, kills: kills, usage: usage, answers: answers,
		inverses: inverses, maintenance: maintenance, inventory: inventory, operations: operations,
		agents: agents, sessions: sessions, expiryTurn: newDeadline(expiryTurn{}),
	}
}

// Step handles one event. Its effects must be performed before those of the next Allocate.
func (c *Core) Step(event Event) []Effect {
	c.now, c.came, c.out = event.At, event.Came, nil
	c.forgetChanges()
	c.by = c.actorOf(event.What)
	if c.came.IsZero() {
		c.came = event.At
	}
	if by := c.calendar.Look(c.now); by != 0 {
		c.warn("the wall clock was set", field("by", by.Round(time.Second).String()))
		c.maintenance.planAll()
	}
	c.happen(event.What)
	c.beginReceipts()
	c.answers.payOwed()
	return c.out
}

func (c *Core) happen(what Happening) {
	switch what := what.(type) {
	case SchedulerOpened:
		c.sessions.schedulerOpened(what)
	case SchedulerCalled:
		c.sessions.schedulerCalled(what)
	case SchedulerClosed:
		c.sessions.schedulerClosed(what)
	case AgentOpened:
		c.agents.agentOpened(what)
	case AgentCalled:
		c.agents.agentCalled(what)
	case AgentClosed:
		c.agents.agentClosed(what)
	case Committed:
		c.committed(what)
	case ProposalRefused:
		c.proposalRefused(what)
	case Requested:
		if err := what.Action.request(c, what.ID, what.By); err != nil {
			c.emit(Reply{ID: what.ID, Err: err})
		}
	case Woken:
		c.woken()
	case Away:
		c.away(what.Gap)
	}
}

// Allocate runs the policy after a batch of events, and returns its offers and other decisions as effects.
func (c *Core) Allocate(now time.Time) []Effect {
	c.now, c.out = now, nil
	c.forgetChanges()
	c.by = change.Actor{}
	if c.allocate() { // a second run offers what the first one made available
		c.allocate()
	}
	return c.out
}

// allocate runs the policy once. It reports whether another run could offer more, because kept offers were taken back,
// or because a principal is offered something again, or nothing more, from now on.
func (c *Core) allocate() (again bool) {
	c.sessions.frameworks.weighPrincipals()
	allocation := c.policy.Allocate(c.now)
	c.offers.makeOffers(allocation.Offers)
	c.offers.served(allocation.Offers)
	c.inverses.spared(allocation.Spared)
	c.inverses.askBack(allocation.Inverse)
	tookBack := c.offers.takeBackKept(allocation.Inverse)
	return c.sessions.frameworks.weighPrincipals() || tookBack
}

// forgetPast has the registry forget what ended long ago, if there is anything.
func (c *Core) forgetPast() {
	c.deadlines.Set(c.expiryTurn, c.now.Add(expiry.Pause))
	c.revokeTokens() // before the tokens' principals are forgotten
	if before, is := c.past.Forgettable(c.registry, c.now); is {
		c.info("the past is forgotten", Field{"before", before.UTC().Format(time.RFC3339)})
		c.proposals.propose(registry.Expire{Before: before})
	}
}

// revokeTokens has the registry revoke the tokens with which somebody could join as a principal that was revoked. Once
// the registry has forgotten the principal, nothing else would keep them out.
func (c *Core) revokeTokens() {
	for _, id := range sortedKeys(c.registry.Tokens) {
		token := c.registry.Tokens[id]
		if token.Revoked.IsZero() && !c.registry.Principals[token.Principal].Revoked.IsZero() {
			c.info("token revoked", Field{"token", id}, Field{"why", "its principal " + token.Principal + " was revoked"})
			c.proposals.propose(registry.RevokeToken{ID: id})
		}
	}
}

// Wake returns when the core wants to be woken; zero means never. The shell asks after every batch of events.
func (c *Core) Wake() time.Time {
	return soonest(c.deadlines.Next(), c.offers.nextExpiry(), c.answers.nextPay(), c.policy.Wake())
}

// Clone returns a core in the same state that shares nothing with this one. Given the same events, both return the same
// effects. The clone uses the given policy, which must have been told everything that this core's policy was told.
func (c *Core) Clone(policy allocator.Allocator) *Core {
	var clone *Core
	c.asData(func() { clone = value.Clone(c) })
	clone.policy, clone.config.Compile = policy, c.config.Compile
	return clone
}

// Dump returns everything that the core holds, as text for people. The policy's own state is not included.
func (c *Core) Dump() string {
	var text string
	c.asData(func() { text = value.Text(c) })
	return text
}

// asData calls do while the two fields that are not data, the policy and the compiler of constraints, are empty.
func (c *Core) asData(do func()) {
	policy, compile := c.policy, c.config.Compile
	c.policy, c.config.Compile = nil, nil
	do()
	c.policy, c.config.Compile = policy, compile
}
