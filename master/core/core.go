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
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/expiry"
	"github.com/tenderhq/tender/master/core/principals"
	"github.com/tenderhq/tender/master/core/receipts"
	"github.com/tenderhq/tender/master/core/wallclock"
	"github.com/tenderhq/tender/master/registry"
)

// Config is what the core is made from. Zero fields mean the documented defaults.
type Config struct {
	Master  api.MasterID
	Version string   // of this master; who is too far from it is refused (R24). Default: it fits every version
	Masters []string // gRPC addresses that agents and schedulers are told; from the registry when empty
	Client  string   // identity of this leadership's proposals (R17): master and term

	HeartbeatInterval time.Duration // of agents and schedulers. Default 1 s
	SessionTimeout    time.Duration // without a sign of life the session is over. Default 5 s
	TombstoneAfter    time.Duration // an agent that was silent for so long is taken for dead. Default 30 s
	GoneAfter         time.Duration // an agent that was a TOMBSTONE for so long is marked gone. Default 7 days; negative = never
	// GoneAfterOf are classes of agents that have another GoneAfter. For an agent the first class counts that it
	// belongs to.
	GoneAfterOf     []GoneAfter
	OfferTimeout    time.Duration // an offer may be held. Default 30 s
	RecoveryHold    time.Duration // roles under a limit wait so long for agents after a failover (R20). Default 10 s
	FailoverTimeout time.Duration // of frameworks that say none. Default 10 min
	PreemptionGrace time.Duration // between an inverse offer and the kill. Default 10 s
	StoreBytesMax   int64         // of all frameworks' stores together. Default and most 1 GiB
	// Principals is how much the frameworks of one principal may have together. (Protocol rule R34.)
	Principals principals.Limits
	// RevocableMargin is the part of what tasks asked for, in percent, that is never offered as
	// revocable, however little they use (R28). Default 10. Small uses more of the cluster and
	// revokes more often; 100 offers nothing.
	RevocableMargin int

	// ReceiptKey is the cluster's, by which launches are signed (R40). Empty: the cluster asks nobody who he is, and launches
	// carry no receipts.
	ReceiptKey []byte

	// Compile makes a program of a constraint; the same text always the same. Default
	// constraint.Compile.
	Compile func(expr string) (*constraint.Program, error)

	// Debug asks for the decisions of every day too: offers, launches, statuses. At
	// thousands of tasks a second they cost more than the decisions. Default: not.
	Debug bool
}

// GoneAfter is for how long agents of a class may be TOMBSTONE before they are marked gone.
type GoneAfter struct {
	Attribute, Value string // that agents of the class have (api.Agent.Has)
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

// Core is all that a leader knows in one term, in rooms that own their state. Only Core knows all rooms, and hands each
// event to the room that it concerns. A room knows the rooms that it stands on and calls only these, so that calls
// between rooms run one way. Not safe for concurrent use: the shell's loop owns it.
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
	expiryTurn *deadline // when the registry is looked through for what it may forget
}

// New makes the core of a leader whose registry is as given (the core keeps its own
// copy) and who leads in this term. Nothing is known yet but what the registry says.
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
	c.out = nil
	return c
}

// newRooms builds the rooms, each with those that it calls.
func newRooms(b *base) *Core {
	proposals := &proposals{base: b, pending: make(map[proposalKey]proposal)}
	standing := &standing{base: b, takers: make(map[api.FrameworkID]bool)}
	offers := &offers{base: b, open: make(map[api.OfferID]*offer), freed: make(freed)}
	kills := &kills{base: b}
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
	inventory := &inventory{base: b, standing: standing, offers: offers, hosts: make(map[string]map[api.AgentID]bool)}
	operations := &operations{
		base: b, proposals: proposals, standing: standing, offers: offers, kills: kills,
		frameworks: frameworks, executors: executors, tasks: tasks, demands: demands, inventory: inventory,
	}
	hold := &hold{base: b, awaited: make(map[api.AgentID]bool), deadline: newDeadline(holdOver{})}
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

// Step takes one event. The effects are performed before the next Allocate's.
func (c *Core) Step(event Event) []Effect {
	c.now, c.came, c.out = event.At, event.Came, nil
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
	case ProposalLost:
		c.proposals.proposalLost(what)
	case ProposalRefused:
		c.proposalRefused(what)
	case Requested:
		what.Action.request(c, what.ID, what.By)
	case Woken:
		c.woken()
	case Away:
		c.away(what.Gap)
	}
}

// Allocate lets the policy run once after a batch of events, and returns the offers.
func (c *Core) Allocate(now time.Time) []Effect {
	c.now, c.out = now, nil
	if c.allocate() { // who waits for it is offered it at once
		c.allocate()
	}
	return c.out
}

// allocate runs the policy once and reports whether something may be offered that it could not offer: kept offers were
// taken back, or a principal is offered more, or nothing more, from now on.
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

// forgetPast has the registry forget what is long past, if there is anything.
func (c *Core) forgetPast() {
	c.deadlines.Set(c.expiryTurn, c.now.Add(expiry.Pause))
	c.revokeTokens() // before their principals are forgotten
	if before, is := c.past.Forgettable(c.registry, c.now); is {
		c.info("the past is forgotten", Field{"before", before.UTC().Format(time.RFC3339)})
		c.proposals.propose(registry.Expire{Before: before})
	}
}

// revokeTokens has the registry revoke the tokens by which somebody would join as a principal that was revoked. Once the
// principal is forgotten nothing else would keep them out.
func (c *Core) revokeTokens() {
	for _, id := range sortedKeys(c.registry.Tokens) {
		token := c.registry.Tokens[id]
		if token.Revoked.IsZero() && !c.registry.Principals[token.Principal].Revoked.IsZero() {
			c.info("token revoked", Field{"token", id}, Field{"why", "its principal " + token.Principal + " was revoked"})
			c.proposals.propose(registry.RevokeToken{ID: id})
		}
	}
}

// Wake is when the core wants to be woken, zero for never. Asked after every batch.
func (c *Core) Wake() time.Time {
	return soonest(c.deadlines.Next(), c.offers.nextExpiry(), c.answers.nextPay(), c.policy.Wake())
}

// Clone is a core that stands where this one stands and shares nothing with it: told the same, both have the same
// effects. The policy is the clone's own, and must have been told what this core's was.
func (c *Core) Clone(policy allocator.Allocator) *Core {
	var clone *Core
	c.asData(func() { clone = value.Clone(c) })
	clone.policy, clone.config.Compile = policy, c.config.Compile
	return clone
}

// Dump is all that the core holds, for people. Its policy has books of its own, which are not shown.
func (c *Core) Dump() string {
	var text string
	c.asData(func() { text = value.Text(c) })
	return text
}

// asData calls do while the two fields are empty that are not data of the core: the policy and the compiler of
// constraints.
func (c *Core) asData(do func()) {
	policy, compile := c.policy, c.config.Compile
	c.policy, c.config.Compile = nil, nil
	do()
	c.policy, c.config.Compile = policy, compile
}
