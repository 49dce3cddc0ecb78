package engine

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// Engine fills the Allocator interface for a policy.
type Engine struct {
	policy Policy
	least  []least // worth offering to who says nothing itself
	kinds  kinds
	again  instant // after which the same is offered again to who gave it back untouched
	cpus   int     // the kinds that every task needs
	mem    int

	agents       []*agent // by number; nil = free number
	agentNumbers map[api.AgentID]int32
	agentHoles   []int32
	details      []details // for agents to come
	total        Amounts   // of all agents

	frameworks  map[api.FrameworkID]*framework
	members     []*member // by number; nil = free number
	takers      []*member // in the order, and take revocable resources; see member.taker
	memberHoles []int32
	generations []uint32 // of each member number's filters; only ever grow

	roles    map[api.Role]*role
	top      []*role // without a parent, by name
	promises promises
	hold     bool

	compile   func(string) (*constraint.Program, error)
	gates     map[gateKey]*gate
	looks     map[string]*look
	lookHoles []int32
	judged    int // verdicts that were found by evaluating a constraint

	moulds    map[string]*mould
	preferred map[api.AgentID]int // by how many shapes

	tasks   map[taskKey]*task // only if the policy preempts
	filters filters
	// postponed is put by until every agent of the round was looked at; empty between rounds.
	postponed  []*postponed
	resumed    map[int32]*resumed // by number of agent: those of this round that were put by
	all        *order             // of all members that may be offered something
	few        *order             // of the members that agents which nobody else wanted are looked at for
	floor      floor
	dirty      dirty
	turn       turn
	stepsBack  stepsBack
	keeps      keeps
	back       back
	keptOffers keptOffers

	epoch time.Time // what instants are counted from; zero = no time seen yet
	now   instant
	// offers counts proposals, so that equals take turns.
	offers uint64
	// numbered counts the roles with a limit of something that is not a mere amount: ports.
	numbered int
	// round counts the calls of Allocate that had something to do.
	round uint64
	// joined counts members.
	joined uint64

	counted Amounts // scratch: of the claim at hand
}

// least is one amount of a kind that makes an offer worth making.
type least struct {
	kind   int
	amount int64
	words  string
}

// New makes an engine of the policy that knows nothing yet.
func New(config allocator.Config, policy Policy) *Engine {
	policy.check()
	b := &Engine{
		policy:       policy,
		kinds:        kinds{numbers: make(map[string]int)},
		agentNumbers: make(map[api.AgentID]int32),
		frameworks:   make(map[api.FrameworkID]*framework),
		roles:        make(map[api.Role]*role),
		gates:        make(map[gateKey]*gate),
		looks:        make(map[string]*look),
		moulds:       make(map[string]*mould),
		preferred:    make(map[api.AgentID]int),
		tasks:        make(map[taskKey]*task),
		resumed:      make(map[int32]*resumed),
	}
	b.all, b.few = newOrder(b, 0), newOrder(b, 1)
	b.cpus, b.mem = b.kinds.number("cpus"), b.kinds.number("mem")
	b.compile = config.Compile
	if b.compile == nil {
		b.compile = constraint.Compile
	}
	b.again = instant(config.OfferAgain)
	if b.again <= 0 {
		b.again = instant(allocator.DefaultOfferAgain)
	}
	minimum := config.MinOffer
	if len(minimum) == 0 {
		minimum = []allocator.MinOffer{{Name: "cpus", Milli: 10}, {Name: "mem", Milli: 32_000}}
	}
	for _, m := range minimum {
		words := m.Name + ":" + api.Milli(m.Milli).String()
		b.least = append(b.least, least{b.kinds.number(m.Name), m.Milli, words})
	}
	return b
}

// instant is a time as nanoseconds since the epoch of the engine, compact in filters.
type instant int64

// before is how far the epoch lies before the first time seen, so that all instants
// are positive, whatever comes first.
const before = 10 * 365 * 24 * time.Hour

// instantOf converts a time. Differences of times keep their monotonic part (R23).
func (e *Engine) instantOf(t time.Time) instant {
	if e.epoch.IsZero() {
		e.epoch = t.Add(-before)
	}
	return instant(t.Sub(e.epoch))
}

func (e *Engine) timeOf(i instant) time.Time { return e.epoch.Add(time.Duration(i)) }

// Hold stops offers to roles under a limit, and preemption, while on (R20).
func (e *Engine) Hold(on bool) {
	if e.hold == on {
		return
	}
	e.hold = on
	if !on {
		e.dirty.everything(e)
	}
}
