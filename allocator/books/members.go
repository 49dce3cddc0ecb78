package books

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// framework is what the books know of a framework.
type framework struct {
	spec    allocator.Framework
	members []*member // by role
	taken   amounts
	minimum amounts // least worth offering; nil = the books' default
	most    amounts // bounds of one offer; nil = none
}

// member is a framework in one of its roles: who is offered something.
type member struct {
	number     int32
	framework  *framework
	role       *role // nil once it is gone
	subscribed bool  // else it only holds what it held when it left the role
	suppressed bool
	listed     bool // in the order: it may be offered something
	taker      int  // its place in the books' takers, from 1; 0 = none
	demand     *demand
	gate       *gate // the framework's constraint; nil = none
	taken      amounts
	holdings   int       // things that it holds
	filters    int       // that are in force
	places     []*places // as long as a demand is spread over them

	yielding    bool
	yieldsUntil uint64 // round
	strikes     uint8
	struck      bool   // it gave an offer back untouched and without a filter since the last round
	served      uint64 // number of its last offer
	passed      uint64 // the turn in which it turned out to take nothing
	fresh       bool   // in dirty.members
	joined      uint64 // who was known first has the smaller number
	touched     bool
	preempts    preempts
}

// SetFramework adds a framework or replaces what is known of it.
func (b *Books) SetFramework(spec allocator.Framework) {
	f := b.frameworks[spec.ID]
	if f == nil {
		f = &framework{}
		b.frameworks[spec.ID] = f
	}
	was := f.spec
	f.spec = spec
	f.minimum, f.most = nil, nil
	if !spec.MinOffer.IsZero() {
		f.minimum = b.kinds.count(nil, spec.MinOffer, nil)
	}
	if !spec.MaxOffer.IsZero() {
		f.most = b.kinds.bounds(spec.MaxOffer)
	}
	for _, name := range spec.Roles {
		b.memberOf(f, name)
	}
	for _, m := range slices.Clone(f.members) {
		m.subscribed = slices.Contains(spec.Roles, m.role.name)
		b.setGate(&m.gate, spec.Constraint, m.role)
		if was.Active && !spec.Active || !m.subscribed || was.TakesOther(spec) {
			b.filters.forget(b, m)
		}
		if !was.Active && spec.Active {
			b.forgive(m)
		}
		b.relist(m)
		b.retake(m)
		b.dirty.member(b, m)
		b.leave(m)
	}
	b.keeps.stale = true
}

// memberOf finds or makes the framework's member in the role.
func (b *Books) memberOf(f *framework, name api.Role) *member {
	at, found := slices.BinarySearchFunc(f.members, name, func(m *member, name api.Role) int { return cmp.Compare(m.role.name, name) })
	if found {
		return f.members[at]
	}
	b.joined++
	m := &member{framework: f, role: b.roleOf(name), joined: b.joined}
	if last := len(b.memberHoles) - 1; last >= 0 {
		m.number = b.memberHoles[last]
		b.memberHoles = b.memberHoles[:last]
		b.members[m.number] = m
	} else {
		m.number = int32(len(b.members))
		b.members = append(b.members, m)
		b.generations = append(b.generations, 0)
	}
	m.role.members = append(m.role.members, m)
	f.members = slices.Insert(f.members, at, m)
	return m
}

// leave forgets a member that is not subscribed and holds nothing.
func (b *Books) leave(m *member) {
	if m.subscribed || m.holdings > 0 {
		return
	}
	b.unlist(m)
	b.filters.forget(b, m)
	b.setDemand(m, nil, false)
	b.setGate(&m.gate, "", m.role)
	f, r := m.framework, m.role
	f.members = slices.DeleteFunc(f.members, func(other *member) bool { return other == m })
	r.members = slices.DeleteFunc(r.members, func(other *member) bool { return other == m })
	b.members[m.number] = nil
	b.memberHoles = append(b.memberHoles, m.number)
	m.role = nil
	b.prune(r)
}

// RemoveFramework forgets the framework and whatever it still holds.
func (b *Books) RemoveFramework(id api.FrameworkID) {
	f := b.frameworks[id]
	if f == nil {
		return
	}
	for _, m := range slices.Clone(f.members) {
		if m.holdings > 0 {
			b.takeAll(m)
		}
		m.subscribed = false
		b.leave(m)
	}
	delete(b.frameworks, id)
	b.loosen()
	b.keeps.stale = true
}

// takeAll returns all that the member holds anywhere.
func (b *Books) takeAll(m *member) {
	for _, a := range b.agents {
		if a == nil {
			continue
		}
		if !a.sumOf(m, false).IsZero() {
			b.takeAllOf(a, m)
			b.dirty.agent(b, a)
		}
	}
}

// relist puts the member into the order if it may be offered something, else out of it.
func (b *Books) relist(m *member) {
	may := m.subscribed && m.framework.spec.Active && !m.suppressed && (m.demand == nil || m.demand.wants())
	switch {
	case may && !m.listed:
		b.list(m)
		b.dirty.member(b, m)
	case !may && m.listed:
		b.unlist(m)
	}
}

func (b *Books) list(m *member) {
	m.listed = true
	b.retake(m)
	b.floor.enter(b, m)
	b.all.insert(m)
	b.countListed(m.role, +1)
}

func (b *Books) unlist(m *member) {
	if !m.listed {
		return
	}
	m.listed = false
	b.retake(m)
	b.floor.depart(b, m)
	b.all.remove(m)
	b.few.remove(m)
	b.countListed(m.role, -1)
}

// retake puts the member among the takers if it may be offered revocable resources, else
// out of them.
func (b *Books) retake(m *member) {
	takes := m.listed && m.framework.spec.Revocable
	switch {
	case takes && m.taker == 0:
		b.takers = append(b.takers, m)
		m.taker = len(b.takers)
	case !takes && m.taker > 0:
		last := b.takers[len(b.takers)-1]
		b.takers[m.taker-1], last.taker = last, m.taker
		b.takers, m.taker = b.takers[:len(b.takers)-1], 0
	}
}

func (b *Books) countListed(r *role, n int) {
	for ; r != nil; r = r.parent {
		r.listed += n
		if r.guarantee != nil && !b.turn.on {
			b.oweRole(r)
		} else if r.guarantee != nil {
			b.touchRole(r)
		}
	}
}

// Suppress stops offers for the roles; none named = all of its roles.
func (b *Books) Suppress(id api.FrameworkID, roles []api.Role) {
	b.inRoles(id, roles, func(m *member) {
		m.suppressed = true
		b.relist(m)
	})
}

// Revive undoes Suppress and forgets the framework's filters in the roles.
func (b *Books) Revive(id api.FrameworkID, roles []api.Role) {
	b.inRoles(id, roles, func(m *member) {
		m.suppressed = false
		b.filters.forget(b, m)
		b.forgive(m)
		b.preemptAgain(m)
		b.relist(m)
		b.dirty.member(b, m)
	})
}

func (b *Books) inRoles(id api.FrameworkID, roles []api.Role, do func(*member)) {
	f := b.frameworks[id]
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
func (b *Books) find(claim allocator.Claim) (*agent, *member) {
	a, f := b.agentOf(claim.Agent), b.frameworks[claim.Framework]
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

func (b *Books) memberKey(m *member) entry {
	return entry{m.taken.dominant(b.total), m.served, m.number}
}
