package books

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Role is a node of the tree of roles. It is there while an operator has set it,
// something is subscribed, held or reserved in it, or a role below is there.
type Role struct {
	Number   int32
	Name     api.Role
	Parent   *Role
	Children []*Role // by name
	Members  []*Member
	wording
	bounds

	Taken   Amounts // held by members in the subtree, and what is reserved for it and not held
	Idle    Amounts // reserved for exactly this role, and not held
	Promise promise
	Leaving Amounts // held by tasks in the subtree that were asked back
	Asked   Amounts // by preemption under way, for members in the subtree

	Listed  int    // members of the subtree that may be offered something
	Served  uint64 // number of the last offer in the subtree
	Own     uint64 // and of the last to a member of exactly this role
	Touched bool   // in Touched.Roles
}

// wording is what an operator says of a role.
type wording struct {
	Spoken    allocator.Role
	Set       bool // he says something that is not the default
	Weight    float64
	Priority  int
	Guarantee Amounts // nil = none
}

// bounds are the limit of a role and how near it is.
type bounds struct {
	Limit   Amounts // by kind, unbounded = none; nil = no limit at all
	Limited bool    // there is a limit here or above
	Full    bool    // its own limit of something that every task needs is reached
	Cut     bool    // somebody got less because of the limit since it was last looked at
}

// RoleOf finds or makes the node and those above it.
func (b *Books) RoleOf(name api.Role) *Role {
	if r := b.Roles[name]; r != nil {
		return r
	}
	r := &Role{Name: name, wording: wording{Weight: 1}}
	siblings := &b.Top
	if above := name.Parent(); above != "" {
		r.Parent = b.RoleOf(above)
		r.Limited = r.Parent.Limited
		r.Promise.Near = r.Parent.Promise.Near
		siblings = &r.Parent.Children
	}
	at, _ := slices.BinarySearchFunc(*siblings, name, ByName)
	*siblings = slices.Insert(*siblings, at, r)
	r.Number = b.roleNumber()
	b.Roles[name] = r
	b.TouchRole(r.Parent) // its own members are a sibling leaf from now on
	return r
}

// roleNumber takes a number that no role has.
func (t *tree) roleNumber() int32 {
	if last := len(t.RoleHoles) - 1; last >= 0 {
		number := t.RoleHoles[last]
		t.RoleHoles = t.RoleHoles[:last]
		return number
	}
	return int32(len(t.Roles))
}

// ByName compares a role with a name.
func ByName(r *Role, name api.Role) int { return cmp.Compare(r.Name, name) }

// LimitsChanged carries the mark "limited" down the tree.
func (b *Books) LimitsChanged(r *Role) {
	r.Limited = r.Limit != nil || r.Parent != nil && r.Parent.Limited
	for _, child := range r.Children {
		b.LimitsChanged(child)
	}
}

// Subtree visits the members of r and of all roles below, in order of names.
func (b *Books) Subtree(r *Role, visit func(*Member)) {
	for _, m := range slices.Clone(r.Members) {
		visit(m)
	}
	for _, child := range r.Children {
		b.Subtree(child, visit)
	}
}

// OwnOf is what the members of exactly this role hold.
func (b *Books) OwnOf(r *Role) Amounts {
	b.Turn.own.Set(r.Taken)
	b.Turn.own.Sub(r.Idle)
	for _, child := range r.Children {
		b.Turn.own.Sub(child.Taken)
	}
	return b.Turn.own
}

// Fill notes whether the role's own limit leaves nothing more of what every task needs.
func (b *Books) Fill(r *Role) {
	if r.Limit != nil {
		r.Full = b.reached(r, b.Cpus) || b.reached(r, b.Mem)
	} else {
		r.Full = false
	}
}

func (b *Books) reached(r *Role, kind int) bool {
	return kind < len(r.Limit) && r.Limit[kind] != Unbounded && r.Taken.At(kind) >= r.Limit[kind]
}

// PriorityThatCounts is the role's own priority, or the nearest one above.
func (r *Role) PriorityThatCounts() int {
	for ; r != nil; r = r.Parent {
		if r.Priority != 0 {
			return r.Priority
		}
	}
	return 0
}
