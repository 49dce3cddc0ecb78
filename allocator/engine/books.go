package engine

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// books are what the engine knows: agents, frameworks, roles, who holds what, what is wanted and refused, and what
// of it has changed since the last round. They decide nothing and have no order.
type books struct {
	preempts bool // the policy ever asks tasks back
	kinds    kinds
	cpus     int // the kinds that every task needs
	mem      int
	clock
	fleet
	membership
	tree
	gates
	wishes
	promises   promises
	tasks      map[taskKey]*task // only if the policy preempts
	filters    filters
	keeps      keeps
	keptOffers keptOffers
	hold       bool // see Hold
	dirty      dirty
	turn       turn
	counted    Amounts // scratch: of the claim at hand
}

// fleet is all agents.
type fleet struct {
	agents       []*agent // by number; nil = free number
	agentNumbers map[api.AgentID]int32
	agentHoles   []int32
	details      []details // for agents to come
	total        Amounts   // of all agents
}

// membership is all frameworks in their roles.
type membership struct {
	frameworks  map[api.FrameworkID]*framework
	members     []*member // by number; nil = free number
	takers      []*member // in the order, and take revocable resources; see member.taker
	memberHoles []int32
	generations []uint32 // of each member number's filters; only ever grow
	joined      uint64   // counts members
}

// tree is all roles.
type tree struct {
	roles     map[api.Role]*role
	top       []*role // without a parent, by name
	roleHoles []int32 // numbers that no role has
	// numbered counts the roles with a limit of something that is not a mere amount: ports.
	numbered int
}

// wishes are what shapes of demands share.
type wishes struct {
	moulds    map[string]*mould
	preferred map[api.AgentID]int // by how many shapes
}

func newBooks(config allocator.Config, preempts bool) *books {
	b := &books{
		preempts:   preempts,
		kinds:      kinds{numbers: make(map[string]int)},
		fleet:      fleet{agentNumbers: make(map[api.AgentID]int32)},
		membership: membership{frameworks: make(map[api.FrameworkID]*framework)},
		tree:       tree{roles: make(map[api.Role]*role)},
		gates:      gates{compile: config.Compile, byKey: make(map[gateKey]*gate), looks: make(map[string]*look)},
		wishes:     wishes{moulds: make(map[string]*mould), preferred: make(map[api.AgentID]int)},
		tasks:      make(map[taskKey]*task),
	}
	if b.compile == nil {
		b.compile = constraint.Compile
	}
	b.cpus, b.mem = b.kinds.number("cpus"), b.kinds.number("mem")
	return b
}
