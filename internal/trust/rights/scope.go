package rights

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// Object is what something is done to. Fields that an object does not have stay empty: an agent has no role.
type Object struct {
	Role      api.Role
	Framework api.FrameworkID
	Name      string // the name of the framework
	Principal string // the principal of the framework
	Owner     string // the principal for whom the framework has it, when that is another one
	Agent     api.AgentID
	Hostname  string
}

// Scope says on which objects a caller may do one thing. It is a value that is passed to the code that knows the
// object. The zero value covers nothing.
type Scope struct {
	// Who is the principal, to be compared with Object.Principal; "" for masters, agents and anybody.
	Who string
	// Everything is for callers that no grant restricts: masters, and anybody in a cluster without identities.
	Everything bool
	// Grants are those that allow the thing.
	Grants []Grant
	// Own says that the thing may be done to what belongs to the principal.
	Own bool
}

// All returns the scope of a caller that nothing restricts.
func All() Scope { return Scope{Everything: true} }

// Covers says whether the thing may be done to the object.
func (s Scope) Covers(o Object) bool {
	return s.Everything || s.owns(o) || slices.ContainsFunc(s.Grants, func(g Grant) bool { return g.covers(o) })
}

// CoversAny says whether the thing may be done to an object that is in several roles: one allowed role is enough.
func (s Scope) CoversAny(o Object, roles []api.Role) bool {
	if s.Covers(o) {
		return true
	}
	return slices.ContainsFunc(roles, func(role api.Role) bool {
		o.Role = role
		return s.Covers(o)
	})
}

// owns says whether the thing may be done to the object because it belongs to the principal.
func (s Scope) owns(o Object) bool { return s.Own && s.isOf(o) }

// isOf says whether the object belongs to the principal: as its framework's, or because the framework has it for the
// principal.
func (s Scope) isOf(o Object) bool { return s.Who != "" && (s.Who == o.Principal || s.Who == o.Owner) }

// Holds says whether what belongs to a principal belongs to the caller.
func (s Scope) Holds(principal string) bool { return s.Everything || s.Who != "" && s.Who == principal }

// As returns the part of the scope that comes from grants of the verb, or of Admin. It is for what needs more than the
// row.
func (s Scope) As(verb Verb) Scope {
	s.Own = false
	s.Grants = slices.DeleteFunc(slices.Clone(s.Grants), func(g Grant) bool { return g.Verb != verb && g.Verb != Admin })
	return s
}

// Reveals says whether the caller may see the values in a task's environment, which only its owner and admins may.
func (s Scope) Reveals(o Object) bool {
	return s.Everything || s.isOf(o) || s.As(Admin).Covers(o)
}

// MayRunAs says whether tasks of the object may run as the user; "" is the agents' default, which every grant to run
// allows.
func (s Scope) MayRunAs(o Object, user string) bool {
	if s.Everything {
		return true
	}
	return slices.ContainsFunc(s.Grants, func(g Grant) bool {
		return g.covers(o) && (user == "" || g.mayRunAs(user))
	})
}

// MayGive says whether a caller with this scope, which is one to grant, may give the grant: nobody gives more than he
// has.
func (s Scope) MayGive(g Grant) bool {
	return s.Everything || slices.ContainsFunc(s.Grants, func(mine Grant) bool { return mine.Verb == Admin && g.within(mine) })
}

// Equal compares two scopes.
func (s Scope) Equal(t Scope) bool {
	return s.Who == t.Who && s.Everything == t.Everything && s.Own == t.Own && slices.Equal(s.Grants, t.Grants)
}
