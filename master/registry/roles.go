package registry

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tenderhq/tender/api"
)

// SetRole replaces an operator's settings of a role, if they are still those that the proposer saw. A change that was
// held against the quotas of other roles names the state's Quotas as well; what agents have is not compared, because
// agents come and go after a quota was set too.
type SetRole struct {
	Role      api.Role
	Set       Role
	Saw       Role
	SawQuotas uint64 // or Whatever
}

// apply replaces the settings of a role. Empty settings remove the role.
func (change SetRole) apply(s *State, _ time.Time) Result {
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
	if !set.Guarantee.Equal(was.Guarantee) || !set.Limit.Equal(was.Limit) {
		s.Quotas++
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

func (change SetRole) saw() sight { return sawRole{change.Role, change.Saw, change.SawQuotas} }

// IsAsSeen reports whether the role's own settings are still those that the proposer saw.
func (change SetRole) IsAsSeen(s *State) bool { return s.Roles[change.Role].equal(change.Saw) }

// countRole updates the index of how many bytes roles take. Roles without any settings do not count.
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

// CheckWeight says why an operator may not give a role this weight.
func CheckWeight(weight float64) error {
	if weight >= 1.0/WeightMax && weight <= WeightMax {
		return nil
	}
	return fmt.Errorf("weight %v; it must be a number from 0.000001 to %d", weight, WeightMax)
}

func (change SetRole) check() error {
	if err := change.Role.Check(); err != nil {
		return err
	}
	if change.Set.Weight != 0 { // 0: nothing is set
		if err := CheckWeight(change.Set.Weight); err != nil {
			return err
		}
	}
	if change.Set.Priority < math.MinInt32 || change.Set.Priority > math.MaxInt32 {
		return errors.New("the priority must fit 32 bits")
	}
	if err := change.Set.Guarantee.Check(); err != nil {
		return fmt.Errorf("guarantee: %w", err)
	}
	if err := change.Set.Limit.Check(); err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	return nil
}
