package settings

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core/quota"
	"github.com/tenderhq/tender/master/registry"
)

// Role changes a role's weight, priority or quota. Nil fields stay as they are.
type Role struct {
	Role      api.Role
	Weight    *float64
	Priority  *int
	Guarantee *api.Resources
	Limit     *api.Resources
	Force     bool // allows a guarantee of more than the agents have, and a limit below one of a role below
}

// Ask checks the new settings of the role. What the caller does not name stays as it is.
func (s Role) Ask(of Leader, by rights.Scope) (Question, *api.Error) {
	const op = "role.set"
	if object := (rights.Object{Role: s.Role}); !by.Covers(object) {
		return Question{}, rights.RefuseAction("set-role", by.Who, object)
	}
	if s.Weight != nil {
		if err := registry.CheckWeight(*s.Weight); err != nil {
			return Question{}, api.E(op, api.Invalid, s.Role, err)
		}
	}
	set := s.onto(of.Registry.Roles[s.Role])
	if !set.Limit.Contains(quota.Named(set.Limit, set.Guarantee)) {
		return Question{}, api.E(op, api.Invalid, s.Role,
			fmt.Errorf("guarantee %v is above limit %v; lower the one or raise the other", set.Guarantee, set.Limit))
	}
	if s.Guarantee != nil || s.Limit != nil {
		if err := quota.CheckNested(of.Registry.Roles, s.Role, set); err != nil {
			return Question{}, api.E(op, api.Invalid, s.Role, err)
		}
	}
	if s.Limit != nil {
		if err := quota.CheckLimit(of.Registry.Roles, s.Role, set.Limit); err != nil {
			return Question{}, api.E(op, api.Invalid, s.Role, err)
		}
	}
	if s.Limit != nil && !s.Force {
		if err := quota.CheckCapped(of.Registry.Roles, s.Role, set.Limit); err != nil {
			return Question{}, api.E(op, api.Invalid, s.Role, err)
		}
	}
	if s.Guarantee != nil && !s.Force {
		if err := quota.CheckCapacity(of.Registry, s.Role, set); err != nil {
			return Question{}, api.E(op, api.Limit, s.Role, err)
		}
	}
	change := registry.SetRole{Role: s.Role, Set: set, Saw: of.Registry.Roles[s.Role], SawQuotas: registry.Whatever}
	if s.Guarantee != nil || s.Limit != nil { // it was held against the quotas of other roles
		change.SawQuotas = of.Registry.Quotas
	}
	return Question{op, string(s.Role), change, fmt.Sprintf("role %s is set", s.Role)}, nil
}

// onto returns the role's settings after the change.
func (s Role) onto(set registry.Role) registry.Role {
	if s.Weight != nil {
		set.Weight = *s.Weight
	}
	if s.Priority != nil {
		set.Priority = *s.Priority
	}
	if s.Guarantee != nil {
		set.Guarantee = s.Guarantee.Plain()
	}
	if s.Limit != nil {
		set.Limit = s.Limit.Plain()
	}
	return set
}
