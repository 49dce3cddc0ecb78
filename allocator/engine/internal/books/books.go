// Package books holds the state of the allocator's engine: agents, frameworks and roles, who holds what, what is wanted
// and refused, and what of it has changed since the last round. It decides nothing, has no order and knows no policy.
// The layers of the engine read it, and write the results of their decisions to it.
package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// Books is the state of the engine: agents, frameworks, roles, who holds what, what is wanted and refused, and what of
// it has changed since the last round. It decides nothing and has no order.
type Books struct {
	Preempts bool // the policy may ask tasks back
	Kinds    kinds
	Cpus     int // kinds that every task needs
	Mem      int
	clock
	fleet
	membership
	tree
	gates
	wishes
	Promises   promises
	Tasks      map[taskKey]*Task // only if the policy preempts
	Filters    filters
	FiltersOf  map[string]int // filters in force, by principal
	Keeps      keeps
	KeptOffers keptOffers
	OnHold     bool // see Hold
	Dirty      dirty
	Turn       turn
	Counted    Amounts // scratch: amounts of the present claim
}

// fleet holds all agents.
type fleet struct {
	Agents       []*Agent // by number; nil = free number
	AgentNumbers map[api.AgentID]int32
	AgentHoles   []int32
	details      []Details // allocated for agents to come
	Total        Amounts   // of all agents
}

// membership holds all frameworks, in their roles.
type membership struct {
	Frameworks  map[api.FrameworkID]*Framework
	Members     []*Member // by number; nil = free number
	Takers      []*Member // members in the order that take revocable resources; see presence
	MemberHoles []int32
	generations []uint32 // of each member number: the generation of its filters, which only grows
	joined      uint64   // number of members so far
}

// tree holds all roles.
type tree struct {
	Roles     map[api.Role]*Role
	Top       []*Role // roles without a parent, by name
	RoleHoles []int32 // free role numbers
	// Numbered counts the roles that have a limit on ranges or sets, such as ports.
	Numbered int
}

// wishes holds what shapes of demands share.
type wishes struct {
	Moulds    map[string]*mould
	Preferred map[api.AgentID]int // by how many shapes each agent is preferred
}

// New makes empty books.
func New(config allocator.Config, preempts bool) *Books {
	b := &Books{
		Preempts:   preempts,
		Kinds:      kinds{Numbers: make(map[string]int)},
		fleet:      fleet{AgentNumbers: make(map[api.AgentID]int32)},
		membership: membership{Frameworks: make(map[api.FrameworkID]*Framework)},
		tree:       tree{Roles: make(map[api.Role]*Role)},
		gates:      gates{compile: config.Compile, ByKey: make(map[gateKey]*Gate), Looks: make(map[string]*look)},
		wishes:     wishes{Moulds: make(map[string]*mould), Preferred: make(map[api.AgentID]int)},
		Tasks:      make(map[taskKey]*Task),
		FiltersOf:  make(map[string]int),
	}
	if b.compile == nil {
		b.compile = constraint.Compile
	}
	b.Cpus, b.Mem = b.Kinds.Number("cpus"), b.Kinds.Number("mem")
	return b
}
