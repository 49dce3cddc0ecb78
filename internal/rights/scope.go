package rights

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// Object is what something is done to. What an object has not, stays empty: an agent has no role.
type Object struct {
	Role      api.Role
	Framework api.FrameworkID
	Name      string // of the framework
	Principal string // whose framework it is
	Agent     api.AgentID
	Hostname  string
}

// Scope is on which objects somebody may do one thing. It is a value that is carried to where the object is known. The zero
// value covers nothing.
type Scope struct {
	// Who is the principal, for comparisons with Object.Principal; "" of masters, agents and anybody.
	Who string
	// Everything is of those whom no grant restricts: anybody in a cluster without identities, and masters.
	Everything bool
	// Grants are those that include the thing.
	Grants []Grant
	// Own says that the thing may be done to what is the principal's own.
	Own bool
}

// All is the scope of whom nothing restricts.
func All() Scope { return Scope{Everything: true} }

// Covers says whether the thing may be done to the object.
func (s Scope) Covers(o Object) bool {
	return s.Everything || s.owns(o) || slices.ContainsFunc(s.Grants, func(g Grant) bool { return g.covers(o) })
}

// CoversAny says whether the thing may be done to something that stands in several roles: to one of them is enough.
func (s Scope) CoversAny(o Object, roles []api.Role) bool {
	if s.Covers(o) {
		return true
	}
	return slices.ContainsFunc(roles, func(role api.Role) bool {
		o.Role = role
		return s.Covers(o)
	})
}

// owns says whether the object is the principal's own.
func (s Scope) owns(o Object) bool { return s.Own && s.Who != "" && s.Who == o.Principal }

// Holds says whether what belongs to a principal is the caller's.
func (s Scope) Holds(principal string) bool { return s.Everything || s.Who != "" && s.Who == principal }

// As is the part of the scope that grants of the verb give: what is only for those who are more than others.
func (s Scope) As(verb Verb) Scope {
	s.Own = false
	s.Grants = slices.DeleteFunc(slices.Clone(s.Grants), func(g Grant) bool { return g.Verb != verb && g.Verb != Admin })
	return s
}

// Reveals says whether the principal may see what a task's environment holds: its owner and admins.
func (s Scope) Reveals(o Object) bool {
	return s.Everything || s.Who != "" && s.Who == o.Principal || s.As(Admin).Covers(o)
}

// MayRunAs says whether tasks of the object may run as the user; "" is the agents' default, which every grant to run allows.
func (s Scope) MayRunAs(o Object, user string) bool {
	if s.Everything {
		return true
	}
	return slices.ContainsFunc(s.Grants, func(g Grant) bool {
		return g.covers(o) && (user == "" || g.mayRunAs(user))
	})
}

// MayGive says whether whoever has the scope, which is one to grant, may give the grant away: nobody gives more than he has.
func (s Scope) MayGive(g Grant) bool {
	return s.Everything || slices.ContainsFunc(s.Grants, func(mine Grant) bool { return mine.Verb == Admin && g.within(mine) })
}

// Equal compares two scopes.
func (s Scope) Equal(t Scope) bool {
	return s.Who == t.Who && s.Everything == t.Everything && s.Own == t.Own && slices.Equal(s.Grants, t.Grants)
}
