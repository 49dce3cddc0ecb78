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
	_, known := s.Roles[change.Role]
	if !known && len(s.Roles) >= RolesMax {
		return refuse(op, api.Limit, change.Role, "%d roles are set; take some back first", RolesMax)
	}
	set := change.Set
	roles := writable(&s.Roles, &s.shared.roles)
	if set.Weight == 0 && set.Priority == 0 && set.Guarantee.IsZero() && set.Limit.IsZero() {
		delete(roles, change.Role)
	} else {
		roles[change.Role] = set
	}
	return Result{}
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
