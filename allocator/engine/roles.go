package engine

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// role is a node of the tree of roles. It is there while an operator has set it,
// something is subscribed, held or reserved in it, or a role below is there.
type role struct {
	number   int32
	name     api.Role
	parent   *role
	children []*role // by name
	members  []*member
	wording
	bounds

	taken   Amounts // held by members in the subtree, and what is reserved for it and not held
	idle    Amounts // reserved for exactly this role, and not held
	promise promise
	leaving Amounts // held by tasks in the subtree that were asked back
	asked   Amounts // by preemption under way, for members in the subtree

	listed  int    // members of the subtree that may be offered something
	served  uint64 // number of the last offer in the subtree
	own     uint64 // and of the last to a member of exactly this role
	touched bool   // in touched.roles
}

// wording is what an operator says of a role.
type wording struct {
	spoken    allocator.Role
	set       bool // he says something that is not the default
	weight    float64
	priority  int
	guarantee Amounts // nil = none
}

// bounds are the limit of a role and how near it is.
type bounds struct {
	limit   Amounts // by kind, unbounded = none; nil = no limit at all
	limited bool    // there is a limit here or above
	full    bool    // its own limit of something that every task needs is reached
	cut     bool    // somebody got less because of the limit since it was last looked at
}

// roleOf finds or makes the node and those above it.
func (e *books) roleOf(name api.Role) *role {
	if r := e.roles[name]; r != nil {
		return r
	}
	r := &role{name: name, wording: wording{weight: 1}}
	siblings := &e.top
	if above := name.Parent(); above != "" {
		r.parent = e.roleOf(above)
		r.limited = r.parent.limited
		r.promise.near = r.parent.promise.near
		siblings = &r.parent.children
	}
	at, _ := slices.BinarySearchFunc(*siblings, name, byName)
	*siblings = slices.Insert(*siblings, at, r)
	r.number = e.roleNumber()
	e.roles[name] = r
	e.touchRole(r.parent) // its own members are a sibling leaf from now on
	return r
}

// roleNumber takes a number that no role has.
func (t *tree) roleNumber() int32 {
	if last := len(t.roleHoles) - 1; last >= 0 {
		number := t.roleHoles[last]
		t.roleHoles = t.roleHoles[:last]
		return number
	}
	return int32(len(t.roles))
}

func byName(r *role, name api.Role) int { return cmp.Compare(r.name, name) }

// prune forgets the node if nothing needs it, and then those above likewise.
func (e *line) prune(r *role) {
	for r != nil && !r.set && len(r.members) == 0 && len(r.children) == 0 && r.taken.zero() && r.idle.zero() {
		e.all.forget(r)
		e.few.forget(r)
		delete(e.roles, r.name)
		e.roleHoles = append(e.roleHoles, r.number)
		siblings := &e.top
		if r.parent != nil {
			siblings = &r.parent.children
		}
		if at, found := slices.BinarySearchFunc(*siblings, r.name, byName); found {
			*siblings = slices.Delete(*siblings, at, at+1)
		}
		r = r.parent
	}
}

// SetRole replaces what an operator says of a role.
func (e *ledger) SetRole(spoken allocator.Role) {
	r := e.roleOf(spoken.Role)
	if isNumbered(r.spoken.Limit) {
		e.numbered--
	}
	if isNumbered(spoken.Limit) {
		e.numbered++
	}
	r.spoken = spoken
	r.weight = spoken.Weight
	if !(r.weight > 0) {
		r.weight = 1
	}
	reranked := r.priority != spoken.Priority
	r.priority = spoken.Priority
	r.limit, r.guarantee = nil, nil
	if !spoken.Limit.IsZero() {
		r.limit = e.kinds.bounds(spoken.Limit)
	}
	if !spoken.Guarantee.IsZero() {
		r.guarantee = e.kinds.count(nil, spoken.Guarantee, nil)
	}
	r.set = r.weight != 1 || r.priority != 0 || r.limit != nil || r.guarantee != nil
	e.fill(r)
	e.limitsChanged(r)
	e.promisesChanged(r)
	e.subtree(r, func(m *member) {
		if reranked && e.policy.Rank != nil && m.listed {
			e.unlist(m)
			e.list(m)
		}
		if e.policy.Less != nil {
			e.touchMember(m) // what it is ordered by may be another
		}
		e.dirty.member(m)
	})
	e.touchRole(r)
	e.keeps.stale = true
	e.prune(r)
}

func isNumbered(limit api.Resources) bool {
	return slices.ContainsFunc(limit.Items(), func(r api.Resource) bool { return r.Ranges.Len() > 0 || len(r.Set) > 0 })
}

// limitsChanged carries the mark "limited" down the tree.
func (e *books) limitsChanged(r *role) {
	r.limited = r.limit != nil || r.parent != nil && r.parent.limited
	for _, child := range r.children {
		e.limitsChanged(child)
	}
}

// subtree visits the members of r and of all roles below, in order of names.
func (e *books) subtree(r *role, visit func(*member)) {
	for _, m := range slices.Clone(r.members) {
		visit(m)
	}
	for _, child := range r.children {
		e.subtree(child, visit)
	}
}

// ownOf is what the members of exactly this role hold.
func (e *books) ownOf(r *role) Amounts {
	e.turn.own.set(r.taken)
	e.turn.own.sub(r.idle)
	for _, child := range r.children {
		e.turn.own.sub(child.taken)
	}
	return e.turn.own
}
