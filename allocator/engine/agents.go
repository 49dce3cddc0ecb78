package engine

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// agent is what the engine knows of an agent. It has what each look at it needs, close together;
// everything else stands apart, so that a walk over all agents goes through little memory.
type agent struct {
	number int32
	last   int32 // member of its last offer; -1 = none
	offers int32 // open offers of it, among what is held
	agentState
	agentMarks
	lastAt instant // when its last offer was made
	looked uint64
	id     api.AgentID

	open    api.Resources     // what may be offered
	free    api.Resources     // held by nobody; more than open when more is used than was asked for
	counted Amounts           // open, without what is revocable
	held    []held            // by members
	filters map[int32]*filter // by member number
	keeps   []*keep           // what preemption frees here is kept for somebody
	beyond  Amounts           // used beyond what was asked for
	plans   []planned         // what its open offers were sized for
	*details
}

// agentState is how an agent is.
type agentState struct {
	offerable bool
	plain     bool // nothing of it is reserved or revocable, so that all may use all of it
	oversold  bool // more is held than there is
}

// agentMarks say why an agent is looked at.
type agentMarks struct {
	dirty   bool // everybody may take more of it than before
	waiting bool // it stands in dirty.pending
	noted   bool // seen or owed holds something
}

// details are what most looks at an agent do not need.
type details struct {
	counts  []tasksOf // of its tasks, by member and group
	pending []int32   // members that may take something of it again
	spare   Amounts   // its part of promises.spare
	tasks   []*task   // by launch; only if the policy preempts
	look    *look
	seen    []seen   // what members could have had when they were offered part of it
	owed    api.Role // whose guarantee its last offer went before all others for; "" = none's
	spec    allocator.Agent
}

// SetAgent adds an agent or replaces what is known of it.
func (e *ledger) SetAgent(spec allocator.Agent) {
	a := e.agentOf(spec.ID)
	if a == nil {
		a = e.newAgent(spec.ID)
	} else if sameButGap(a.spec, spec) {
		e.setGap(a, spec)
		return
	}
	before := a.spec
	a.spec, a.offerable = spec, spec.Offerable
	if changed, moved := e.relook(a); changed {
		e.filters.forgetAgent(e.books, a) // it may suit now who refused it before
		if moved {
			e.recountAll()
		}
	}
	if !before.Total.Equal(spec.Total) {
		e.setTotal(a, before.Total, spec.Total)
	}
	if before.Offerable != spec.Offerable {
		e.countSpare(a)
	}
	e.loosen()
	e.dirty.agent(a)
	e.keeps.stale = true
}

// sameButGap reports whether at most what is revocable is another.
func sameButGap(s, t allocator.Agent) bool {
	return s.Offerable == t.Offerable && s.Why == t.Why && s.Hostname == t.Hostname && s.Region == t.Region && s.Zone == t.Zone &&
		maps.Equal(s.Attributes, t.Attributes) && s.Total.Firm().Equal(t.Total.Firm())
}

// setGap changes what is revocable of the agent, which happens often: only who takes that
// may take more than before, and nobody when there is less.
func (e *ledger) setGap(a *agent, spec allocator.Agent) {
	before := a.spec
	a.spec = spec
	e.setTotal(a, before.Total, spec.Total)
	if before.Total.Contains(spec.Total) {
		return
	}
	if len(e.takers) > takersMax {
		e.dirty.agent(a)
		return
	}
	for _, m := range e.takers {
		e.dirty.pair(a, m)
	}
}

// takersMax is how many members are marked one by one for an agent whose gap has grown;
// where more take revocable resources, the agent is looked at for all.
const takersMax = 16

// detailsSlab is for how many agents memory is taken at once.
const detailsSlab = 16

func (e *fleet) newAgent(id api.AgentID) *agent {
	if len(e.details) == 0 {
		e.details = make([]details, detailsSlab)
	}
	a := &agent{id: id, last: -1, agentState: agentState{plain: true}, details: &e.details[0]}
	e.details = e.details[1:]
	if last := len(e.agentHoles) - 1; last >= 0 {
		a.number = e.agentHoles[last]
		e.agentHoles = e.agentHoles[:last]
		e.agents[a.number] = a
	} else {
		a.number = int32(len(e.agents))
		e.agents = append(e.agents, a)
	}
	e.agentNumbers[id] = a.number
	return a
}

// setTotal moves the agent from one total to another; what is held on it stays.
func (e *line) setTotal(a *agent, from, to api.Resources) {
	firm := !from.Firm().Equal(to.Firm()) // else only the gap is another, which counts nowhere
	if firm {
		e.counted = e.kinds.count(e.counted, from, nil)
		e.total.sub(e.counted)
		e.counted = e.kinds.count(e.counted, to, nil)
		e.total.add(e.counted)
		e.dirty.touched.all = true
		e.reserve(a, from, -1)
	}
	free := to
	a.oversold = false
	for i := range a.held {
		a.oversold = a.oversold || !covers(free, a.held[i].resources)
		free = free.Without(a.held[i].resources)
	}
	a.plain = !slices.ContainsFunc(to.Items(), func(item api.Resource) bool { return item.Reserved != "" || item.Revocable })
	e.setFree(a, free, nil)
	if firm {
		e.reserve(a, to, +1)
	}
}

// reserve counts reservations as taken by their roles, whether used or not: adds them
// (sign +1) or takes them away. What members hold of them is counted with the members
// (see charge), so that both together count each thing once.
func (e *line) reserve(a *agent, total api.Resources, sign int64) {
	for _, item := range total.Items() {
		if item.Reserved == "" || item.Revocable {
			continue
		}
		r := e.roleOf(item.Reserved)
		amount := sign * size(item)
		kind := e.kinds.number(item.Name)
		e.idle(r, kind, amount)
		if sign < 0 {
			e.uncut(r)
		}
		e.prune(r)
	}
}

// idle adds to what is reserved for the role and not held.
func (e *books) idle(r *role, kind int, amount int64) {
	r.idle.addAt(kind, amount)
	for above := r; above != nil; above = above.parent {
		above.taken.addAt(kind, amount)
		e.fill(above)
		e.touchRole(above)
	}
	if r.promise.near {
		e.recountNeed(r)
	}
}

// setFree replaces what is held by nobody. counted is its amounts when they are known.
func (e *books) setFree(a *agent, free api.Resources, counted Amounts) {
	a.free, a.open = free, free
	if !a.beyond.zero() {
		a.open, counted = e.unused(a), nil
	}
	switch {
	case a.open.IsZero():
		a.counted = a.counted[:0]
	case counted != nil:
		a.counted.set(counted)
	default:
		a.counted = e.kinds.count(a.counted, a.open, nil)
	}
	e.countSpare(a)
}

// RemoveAgent forgets the agent and all that is taken on it.
func (e *ledger) RemoveAgent(id api.AgentID) {
	a := e.agentOf(id)
	if a == nil {
		return
	}
	for len(a.held) > 0 {
		m := e.members[a.held[len(a.held)-1].member]
		e.takeAllOf(a, m)
		e.leave(m)
	}
	a.offerable = false
	e.setTotal(a, a.spec.Total, api.Resources{})
	e.filters.forgetAgent(e.books, a)
	e.keeps.drop(a)
	e.unlook(a)
	delete(e.agentNumbers, id)
	e.agents[a.number] = nil
	e.agentHoles = append(e.agentHoles, a.number)
	*a.details = details{} // the others of its slab keep the memory
	e.loosen()
	e.keeps.stale = true
}

func (e *fleet) agentOf(id api.AgentID) *agent {
	number, known := e.agentNumbers[id]
	if !known {
		return nil
	}
	return e.agents[number]
}
