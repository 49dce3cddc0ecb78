package registry

import (
	"errors"
	"fmt"
	"math"

	"github.com/tenderhq/tender/api"
)

// setRole replaces what is said of a role; nothing at all forgets it.
func (s *State) setRole(change SetRole) Result {
	const op = "role.set"
	if err := change.check(); err != nil {
		return Result{Err: api.E(op, api.Invalid, change.Role, err)}
	}
	more := change.Set.bytes()
	was, known := s.Roles[change.Role]
	if known {
		more -= was.bytes()
	}
	if !known && len(s.Roles) >= RolesMax {
		return refuse(op, api.Limit, change.Role, "%d roles are set; take some back first", RolesMax)
	}
	set := change.Set
	if bad := s.noRoom(op, string(change.Role), "roles", s.index().roleBytes, more, RolesBytesMax); bad != nil {
		return *bad
	}
	s.countRole(change.Role, set)
	roles := writable(&s.Roles, &s.shared.roles)
	if set.isNothing() {
		delete(roles, change.Role)
	} else {
		roles[change.Role] = set
	}
	return Result{}
}

// countRole keeps the index of what roles take, which counts those that are set.
func (s *State) countRole(role api.Role, set Role) {
	index := s.index()
	if was, known := s.Roles[role]; known {
		index.roleBytes -= was.bytes()
	}
	if !set.isNothing() {
		index.roleBytes += set.bytes()
	}
}

func (r Role) isNothing() bool {
	return r.Weight == 0 && r.Priority == 0 && r.Guarantee.IsZero() && r.Limit.IsZero()
}

func (c SetRole) check() error {
	if err := c.Role.Check(); err != nil {
		return err
	}
	if math.IsNaN(c.Set.Weight) || math.IsInf(c.Set.Weight, 0) || c.Set.Weight < 0 {
		return fmt.Errorf("weight %v; it must be a number above 0", c.Set.Weight)
	}
	if c.Set.Priority < math.MinInt32 || c.Set.Priority > math.MaxInt32 {
		return errors.New("the priority must fit 32 bits")
	}
	if err := c.Set.Guarantee.Check(); err != nil {
		return fmt.Errorf("guarantee: %w", err)
	}
	if err := c.Set.Limit.Check(); err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	return nil
}
