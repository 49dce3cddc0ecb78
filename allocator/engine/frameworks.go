package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// setFramework adds a framework or replaces what is known of it.
func (e *ledger) setFramework(spec allocator.Framework) {
	f := e.Frameworks[spec.ID]
	if f == nil {
		f = &books.Framework{}
		e.Frameworks[spec.ID] = f
	}
	was := f.Spec
	f.Spec = spec
	for _, m := range f.Members {
		e.CountFilters(was.Principal, -m.Filters)
		e.CountFilters(spec.Principal, m.Filters)
	}
	f.Minimum, f.Most = nil, nil
	if !spec.MinOffer.IsZero() {
		f.Minimum = e.Kinds.Count(nil, spec.MinOffer, nil)
	}
	if !spec.MaxOffer.IsZero() {
		f.Most = e.Kinds.Bounds(spec.MaxOffer)
	}
	for _, name := range spec.Roles {
		e.MemberOf(f, name)
	}
	for _, m := range slices.Clone(f.Members) {
		m.Subscribed = slices.Contains(spec.Roles, m.Role.Name)
		e.SetGate(&m.Gate, spec.Constraint, m.Role)
		if was.Active && !spec.Active || !m.Subscribed || was.TakesOther(spec) {
			e.Filters.Forget(e.Books, m)
		}
		if !was.Active && spec.Active {
			e.forgive(m)
		}
		e.relist(m)
		e.Retake(m)
		e.Dirty.Member(m)
		e.forgetMember(m)
	}
	e.Keeps.Stale = true
}

// forgetMember forgets a member that is not subscribed and holds nothing.
func (e *ledger) forgetMember(m *books.Member) {
	if m.Subscribed || m.Holdings > 0 {
		return
	}
	e.unlist(m)
	e.Filters.Forget(e.Books, m)
	e.setDemand(m, nil, false)
	e.SetGate(&m.Gate, "", m.Role)
	f, r := m.Framework, m.Role
	f.Members = slices.DeleteFunc(f.Members, func(other *books.Member) bool { return other == m })
	r.Members = slices.DeleteFunc(r.Members, func(other *books.Member) bool { return other == m })
	e.Members[m.Number] = nil
	e.MemberHoles = append(e.MemberHoles, m.Number)
	m.Role = nil
	e.pruneRole(r)
}

// removeFramework forgets the framework and whatever it still holds.
func (e *ledger) removeFramework(id api.FrameworkID) {
	f := e.Frameworks[id]
	if f == nil {
		return
	}
	for _, m := range slices.Clone(f.Members) {
		if m.Holdings > 0 {
			e.takeAll(m)
		}
		m.Subscribed = false
		e.forgetMember(m)
	}
	delete(e.Frameworks, id)
	e.Loosen()
	e.Keeps.Stale = true
}

// takeAll returns everything that the member holds on any agent.
func (e *ledger) takeAll(m *books.Member) {
	for _, a := range e.Agents {
		if a == nil {
			continue
		}
		if !a.SumOf(m, false).IsZero() {
			e.takeAllOf(a, m)
			e.Dirty.Agent(a)
		}
	}
}

// suppress stops offers in the roles; without roles, in all roles of the framework.
func (e *ledger) suppress(id api.FrameworkID, roles []api.Role) {
	e.InRoles(id, roles, func(m *books.Member) {
		m.Suppressed = true
		e.relist(m)
	})
}

// revive undoes Suppress and forgets the framework's filters in the roles.
func (e *ledger) revive(id api.FrameworkID, roles []api.Role) {
	e.InRoles(id, roles, func(m *books.Member) {
		m.Suppressed = false
		e.Filters.Forget(e.Books, m)
		e.forgive(m)
		e.PreemptAgain(m)
		e.relist(m)
		e.Dirty.Member(m)
	})
}
