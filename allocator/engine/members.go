package engine

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// framework is what the engine knows of a framework.
type framework struct {
	spec    allocator.Framework
	members []*member // by role
	taken   Amounts
	minimum Amounts // least worth offering; nil = the engine's default
	most    Amounts // bounds of one offer; nil = none
}

// member is a framework in one of its roles: who is offered something.
type member struct {
	number    int32
	framework *framework
	role      *role // nil once it is gone
	presence
	demand   *demand
	gate     *gate // the framework's constraint; nil = none
	taken    Amounts
	holdings int       // things that it holds
	filters  int       // that are in force
	places   []*places // as long as a demand is spread over them

	patience
	served uint64 // number of its last offer
	joined uint64 // who was known first has the smaller number
	memberMarks
	preempts preempts
}

// presence is whether a member may be offered something.
type presence struct {
	subscribed bool // else it only holds what it held when it left the role
	suppressed bool
	listed     bool // in the order: it may be offered something
	taker      int  // its place in the takers, from 1; 0 = none
}

// patience is how a member that gave offers back untouched lets others go first, see stepsBack.
type patience struct {
	steppedBack bool
	struck      bool // it gave an offer back untouched and without a filter since the last round
	strikes     uint8
	backUntil   uint64 // round
}

// memberMarks say why a member is looked at.
type memberMarks struct {
	fresh   bool   // in dirty.members
	touched bool   // in touched.members
	passed  uint64 // the turn in which it turned out to take nothing
}

// SetFramework adds a framework or replaces what is known of it.
func (e *ledger) SetFramework(spec allocator.Framework) {
	f := e.frameworks[spec.ID]
	if f == nil {
		f = &framework{}
		e.frameworks[spec.ID] = f
	}
	was := f.spec
	f.spec = spec
	f.minimum, f.most = nil, nil
	if !spec.MinOffer.IsZero() {
		f.minimum = e.kinds.count(nil, spec.MinOffer, nil)
	}
	if !spec.MaxOffer.IsZero() {
		f.most = e.kinds.bounds(spec.MaxOffer)
	}
	for _, name := range spec.Roles {
		e.memberOf(f, name)
	}
	for _, m := range slices.Clone(f.members) {
		m.subscribed = slices.Contains(spec.Roles, m.role.name)
		e.setGate(&m.gate, spec.Constraint, m.role)
		if was.Active && !spec.Active || !m.subscribed || was.TakesOther(spec) {
			e.filters.forget(e.books, m)
		}
		if !was.Active && spec.Active {
			e.forgive(m)
		}
		e.relist(m)
		e.retake(m)
		e.dirty.member(m)
		e.leave(m)
	}
	e.keeps.stale = true
}

// memberOf finds or makes the framework's member in the role.
func (e *books) memberOf(f *framework, name api.Role) *member {
	at, found := slices.BinarySearchFunc(f.members, name, func(m *member, name api.Role) int { return cmp.Compare(m.role.name, name) })
	if found {
		return f.members[at]
	}
	e.joined++
	m := &member{framework: f, role: e.roleOf(name), joined: e.joined}
	if last := len(e.memberHoles) - 1; last >= 0 {
		m.number = e.memberHoles[last]
		e.memberHoles = e.memberHoles[:last]
		e.members[m.number] = m
	} else {
		m.number = int32(len(e.members))
		e.members = append(e.members, m)
		e.generations = append(e.generations, 0)
	}
	m.role.members = append(m.role.members, m)
	f.members = slices.Insert(f.members, at, m)
	return m
}

// leave forgets a member that is not subscribed and holds nothing.
func (e *ledger) leave(m *member) {
	if m.subscribed || m.holdings > 0 {
		return
	}
	e.unlist(m)
	e.filters.forget(e.books, m)
	e.setDemand(m, nil, false)
	e.setGate(&m.gate, "", m.role)
	f, r := m.framework, m.role
	f.members = slices.DeleteFunc(f.members, func(other *member) bool { return other == m })
	r.members = slices.DeleteFunc(r.members, func(other *member) bool { return other == m })
	e.members[m.number] = nil
	e.memberHoles = append(e.memberHoles, m.number)
	m.role = nil
	e.prune(r)
}

// RemoveFramework forgets the framework and whatever it still holds.
func (e *ledger) RemoveFramework(id api.FrameworkID) {
	f := e.frameworks[id]
	if f == nil {
		return
	}
	for _, m := range slices.Clone(f.members) {
		if m.holdings > 0 {
			e.takeAll(m)
		}
		m.subscribed = false
		e.leave(m)
	}
	delete(e.frameworks, id)
	e.loosen()
	e.keeps.stale = true
}

// takeAll returns all that the member holds anywhere.
func (e *ledger) takeAll(m *member) {
	for _, a := range e.agents {
		if a == nil {
			continue
		}
		if !a.sumOf(m, false).IsZero() {
			e.takeAllOf(a, m)
			e.dirty.agent(a)
		}
	}
}

// relist puts the member into the order if it may be offered something, else out of it.
func (e *line) relist(m *member) {
	may := m.subscribed && m.framework.spec.Active && !m.suppressed && (m.demand == nil || m.demand.wants())
	switch {
	case may && !m.listed:
		e.list(m)
		e.dirty.member(m)
	case !may && m.listed:
		e.unlist(m)
	}
}

func (e *line) list(m *member) {
	m.listed = true
	e.retake(m)
	e.floor.enter(e.books, m)
	e.all.insert(m)
	e.countListed(m.role, +1)
}

func (e *line) unlist(m *member) {
	if !m.listed {
		return
	}
	m.listed = false
	e.retake(m)
	e.floor.depart(e, m)
	e.all.remove(m)
	e.few.remove(m)
	e.countListed(m.role, -1)
}

// retake puts the member among the takers if it may be offered revocable resources, else
// out of them.
func (e *membership) retake(m *member) {
	takes := m.listed && m.framework.spec.Revocable
	switch {
	case takes && m.taker == 0:
		e.takers = append(e.takers, m)
		m.taker = len(e.takers)
	case !takes && m.taker > 0:
		last := e.takers[len(e.takers)-1]
		e.takers[m.taker-1], last.taker = last, m.taker
		e.takers, m.taker = e.takers[:len(e.takers)-1], 0
	}
}

func (e *line) countListed(r *role, n int) {
	for ; r != nil; r = r.parent {
		r.listed += n
		if r.guarantee != nil && !e.turn.on {
			e.oweRole(r)
		} else if r.guarantee != nil {
			e.touchRole(r)
		}
	}
}

// Suppress stops offers for the roles; none named = all of its roles.
func (e *ledger) Suppress(id api.FrameworkID, roles []api.Role) {
	e.inRoles(id, roles, func(m *member) {
		m.suppressed = true
		e.relist(m)
	})
}

// Revive undoes Suppress and forgets the framework's filters in the roles.
func (e *ledger) Revive(id api.FrameworkID, roles []api.Role) {
	e.inRoles(id, roles, func(m *member) {
		m.suppressed = false
		e.filters.forget(e.books, m)
		e.forgive(m)
		e.preemptAgain(m)
		e.relist(m)
		e.dirty.member(m)
	})
}

func (e *books) inRoles(id api.FrameworkID, roles []api.Role, do func(*member)) {
	f := e.frameworks[id]
	if f == nil {
		return
	}
	for _, m := range f.members {
		if len(roles) == 0 || slices.Contains(roles, m.role.name) {
			do(m)
		}
	}
}

// find returns agent and member of a claim, if both are known.
func (e *books) find(claim allocator.Claim) (*agent, *member) {
	a, f := e.agentOf(claim.Agent), e.frameworks[claim.Framework]
	if a == nil || f == nil {
		return nil, nil
	}
	for _, m := range f.members {
		if m.role.name == claim.Role {
			return a, m
		}
	}
	return a, nil
}
