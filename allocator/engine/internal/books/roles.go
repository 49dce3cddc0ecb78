package books

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Role is a node of the tree of roles. It exists while an operator has set it, while something is subscribed, held or
// reserved in it, and while a role below it exists.
type Role struct {
	Number   int32
	Name     api.Role
	Parent   *Role
	Children []*Role // by name
	Members  []*Member
	wording
	bounds

	Taken   Amounts // held by members in the subtree, or reserved for it and not held
	Idle    Amounts // reserved for exactly this role, and not held
	Promise promise
	Leaving Amounts // held by tasks in the subtree that were asked back
	Asked   Amounts // by preemption under way, for members in the subtree

	Listed  int    // number of members in the subtree that may be offered something
	Served  uint64 // number of the last offer in the subtree
	Own     uint64 // number of the last offer to a member of exactly this role
	Touched bool   // it is in Touched.Roles
}

// wording holds an operator's settings of a role.
type wording struct {
	Spoken    allocator.Role
	Set       bool // some setting is not the default
	Weight    float64
	Priority  int
	Guarantee Amounts // nil = none
}

// bounds holds the limit of a role, and how near the role is to it.
type bounds struct {
	Limit   Amounts // by kind; unbounded = none; nil = no limit at all
	Limited bool    // this role or one above it has a limit
	Full    bool    // its own limit of something that every task needs is reached
	Cut     bool    // somebody has got less because of the limit since it was last looked at
}

// RoleOf returns the node of this name; it makes the node, and those above it, if there is none.
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
	b.TouchRole(r.Parent) // from now on the parent's own members are a leaf beside its children
	return r
}

// roleNumber returns a free role number.
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

// LimitsChanged updates the mark Limited of the role and of those below it.
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

// OwnOf returns what the members of exactly this role hold.
func (b *Books) OwnOf(r *Role) Amounts {
	b.Turn.own.Set(r.Taken)
	b.Turn.own.Sub(r.Idle)
	for _, child := range r.Children {
		b.Turn.own.Sub(child.Taken)
	}
	return b.Turn.own
}

// Fill notes whether the role's own limit is reached for something that every task needs.
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

// PriorityThatCounts returns the role's own priority or, if it has none, that of the nearest role above that has one.
func (r *Role) PriorityThatCounts() int {
	for ; r != nil; r = r.Parent {
		if r.Priority != 0 {
			return r.Priority
		}
	}
	return 0
}
