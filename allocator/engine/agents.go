package engine

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// setAgent adds an agent or replaces what is known of it.
func (e *ledger) setAgent(spec allocator.Agent) {
	a := e.AgentOf(spec.ID)
	if a == nil {
		a = e.NewAgent(spec.ID)
	} else if sameButGap(a.Spec, spec) {
		e.setGap(a, spec)
		return
	}
	before := a.Spec
	a.Spec, a.Offerable = spec, spec.Offerable
	if changed, moved := e.Relook(a); changed {
		e.Filters.ForgetAgent(e.Books, a) // it may now be of use to frameworks that have refused it
		if moved {
			e.RecountAll()
		}
	}
	if !before.Total.Equal(spec.Total) {
		e.setTotal(a, before.Total, spec.Total)
	}
	if before.Offerable != spec.Offerable {
		e.CountSpare(a)
	}
	e.Loosen()
	e.Dirty.Agent(a)
	e.Keeps.Stale = true
}

// sameButGap reports whether nothing has changed except the revocable resources.
func sameButGap(s, t allocator.Agent) bool {
	return s.Offerable == t.Offerable && s.Why == t.Why && s.Hostname == t.Hostname && s.Region == t.Region && s.Zone == t.Zone &&
		maps.Equal(s.Attributes, t.Attributes) && s.Total.Firm().Equal(t.Total.Firm())
}

// setGap changes how much of the agent is revocable; this happens often. When the gap grows, only frameworks that take
// revocable resources may get more; when it shrinks, nobody gets more.
func (e *ledger) setGap(a *books.Agent, spec allocator.Agent) {
	before := a.Spec
	a.Spec = spec
	e.setTotal(a, before.Total, spec.Total)
	if before.Total.Contains(spec.Total) {
		return
	}
	if len(e.Takers) > takersMax {
		e.Dirty.Agent(a)
		return
	}
	for _, m := range e.Takers {
		e.Dirty.Pair(a, m)
	}
}

// takersMax bounds how many members are marked one by one for an agent whose gap has grown. If more members take
// revocable resources, the agent is marked for all.
const takersMax = 16

// setTotal moves the agent from one total to another; what is held on it stays.
func (e *ledger) setTotal(a *books.Agent, from, to api.Resources) {
	firm := !from.Firm().Equal(to.Firm()) // false: only the revocable part has changed, which counts in no total
	if firm {
		e.Counted = e.Kinds.Count(e.Counted, from, nil)
		e.Total.Sub(e.Counted)
		e.Counted = e.Kinds.Count(e.Counted, to, nil)
		e.Total.Add(e.Counted)
		e.Dirty.Touched.All = true
		e.reserve(a, from, -1)
	}
	free := a.FreeOf(to)
	a.Plain = !slices.ContainsFunc(to.Items(), func(item api.Resource) bool { return item.Reserved != "" || item.Revocable })
	e.SetFree(a, free, nil)
	if firm {
		e.reserve(a, to, +1)
	}
}

// reserve counts reservations as taken by their roles, whether they are used or not: it adds them (sign +1) or removes
// them. What members hold of a reservation is counted with the members (see charge), so that each thing is counted
// once.
func (e *ledger) reserve(a *books.Agent, total api.Resources, sign int64) {
	for _, item := range total.Items() {
		if item.Reserved == "" || item.Revocable {
			continue
		}
		r := e.RoleOf(item.Reserved)
		amount := sign * books.Size(item)
		kind := e.Kinds.Number(item.Name)
		e.Idle(r, kind, amount)
		if sign < 0 {
			e.Uncut(r)
		}
		e.pruneRole(r)
	}
}

// removeAgent forgets the agent and everything that is taken on it.
func (e *ledger) removeAgent(id api.AgentID) {
	a := e.AgentOf(id)
	if a == nil {
		return
	}
	for {
		last, some := a.LastHolder()
		if !some {
			break
		}
		m := e.Members[last]
		e.takeAllOf(a, m)
		e.forgetMember(m)
	}
	a.Offerable = false
	e.setTotal(a, a.Spec.Total, api.Resources{})
	e.Filters.ForgetAgent(e.Books, a)
	e.Keeps.Drop(a)
	e.Unlook(a)
	delete(e.AgentNumbers, id)
	e.Agents[a.Number] = nil
	e.AgentHoles = append(e.AgentHoles, a.Number)
	*a.Details = books.Details{} // other agents share the slab, so its memory stays as long as they do
	e.Loosen()
	e.Keeps.Stale = true
}
