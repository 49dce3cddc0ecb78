package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// pruneRole forgets the role if nothing needs it, and then the roles above in the same way.
func (e *ledger) pruneRole(r *books.Role) {
	for r != nil && !r.Set && len(r.Members) == 0 && len(r.Children) == 0 && r.Taken.Zero() && r.Idle.Zero() {
		e.all.forget(r)
		e.few.forget(r)
		delete(e.Roles, r.Name)
		e.RoleHoles = append(e.RoleHoles, r.Number)
		siblings := &e.Top
		if r.Parent != nil {
			siblings = &r.Parent.Children
		}
		if at, found := slices.BinarySearchFunc(*siblings, r.Name, books.ByName); found {
			*siblings = slices.Delete(*siblings, at, at+1)
		}
		r = r.Parent
	}
}

// setRole replaces an operator's settings of a role.
func (e *ledger) setRole(spoken allocator.Role) {
	r := e.RoleOf(spoken.Role)
	if isNumbered(r.Spoken.Limit) {
		e.Numbered--
	}
	if isNumbered(spoken.Limit) {
		e.Numbered++
	}
	r.Spoken = spoken
	r.Weight = spoken.Weight
	if !(r.Weight > 0) {
		r.Weight = 1
	}
	reranked := r.Priority != spoken.Priority
	r.Priority = spoken.Priority
	r.Limit, r.Guarantee = nil, nil
	if !spoken.Limit.IsZero() {
		r.Limit = e.Kinds.Bounds(spoken.Limit)
	}
	if !spoken.Guarantee.IsZero() {
		r.Guarantee = e.Kinds.Count(nil, spoken.Guarantee, nil)
	}
	r.Set = r.Weight != 1 || r.Priority != 0 || r.Limit != nil || r.Guarantee != nil
	e.Fill(r)
	e.LimitsChanged(r)
	e.promisesChanged(r)
	e.Subtree(r, func(m *books.Member) {
		if reranked && e.policy.Rank != nil && m.Listed {
			e.unlist(m)
			e.list(m)
		}
		if e.policy.Less != nil {
			e.TouchMember(m) // what it is ordered by may have changed
		}
		e.Dirty.Member(m)
	})
	e.TouchRole(r)
	e.Keeps.Stale = true
	e.pruneRole(r)
}

func isNumbered(limit api.Resources) bool {
	return slices.ContainsFunc(limit.Items(), func(r api.Resource) bool { return r.Ranges.Len() > 0 || len(r.Set) > 0 })
}
