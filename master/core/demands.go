package core

import (
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/view"
)

// demands are what frameworks want, and the roles in which they want nothing now. What people are shown is what the
// policy works with. (Protocol rule R38.)
type demands struct{ *base }

// wants is what a framework wants, by role.
type wants struct {
	suppressed map[api.Role]bool
	demand     map[api.Role][]api.Shape
	demandFrom api.Nonce // the instance that stated it
}

// suppress stops offers for the roles; none named = all.
func (r *demands) suppress(s *session, number uint64, roles []api.Role) {
	fw := s.framework
	if !r.haveRoles(s, number, "framework.suppress", roles) {
		return
	}
	for _, role := range orAll(roles, fw) {
		fw.suppressed[role] = true
	}
	r.policy.Suppress(fw.id, roles)
}

// revive brings offers back and forgets filters.
func (r *demands) revive(s *session, number uint64, roles []api.Role) {
	fw := s.framework
	if !r.haveRoles(s, number, "framework.revive", roles) {
		return
	}
	for _, role := range orAll(roles, fw) {
		delete(fw.suppressed, role)
	}
	r.policy.Revive(fw.id, roles)
}

func orAll(roles []api.Role, fw *framework) []api.Role {
	if len(roles) == 0 {
		return fw.info.Roles
	}
	return roles
}

// haveRoles refuses a call that names a role which is not the framework's.
func (r *demands) haveRoles(s *session, number uint64, op string, roles []api.Role) bool {
	for _, role := range roles {
		if !slices.Contains(s.framework.info.Roles, role) {
			r.refuse(s, number, api.E(op, api.Invalid, role, fmt.Errorf("the framework has not subscribed to it, but to %v", s.framework.info.Roles)))
			return false
		}
	}
	return true
}

// startSuppressed begins a session with exactly these roles suppressed.
func (r *demands) startSuppressed(fw *framework, roles []api.Role) {
	clear(fw.suppressed)
	r.policy.Revive(fw.id, nil)
	if len(roles) == 0 {
		return
	}
	for _, role := range roles {
		fw.suppressed[role] = true
	}
	r.policy.Suppress(fw.id, roles)
}

// resetDemand forgets what another instance of the framework wanted: this one will state it itself.
func (r *demands) resetDemand(fw *framework, instance api.Nonce) {
	if fw.demandFrom == instance {
		return
	}
	fw.demandFrom = instance
	for _, role := range sortedKeys(fw.demand) {
		r.unstate(fw, role)
	}
}

// setDemand replaces what the framework wants in the role.
func (r *demands) setDemand(s *session, number uint64, call protocol.SetDemand) {
	fw := s.framework
	role := call.Role
	if role == "" && len(fw.info.Roles) == 1 {
		role = fw.info.Roles[0]
	}
	if !r.haveRoles(s, number, "framework.demand", []api.Role{role}) {
		return
	}
	if kind, err := r.checkShapes(fw, role, call.Shapes); err != nil {
		r.refuse(s, number, api.E("framework.demand", kind, role, err))
		return
	}
	if call.Unstated {
		r.unstate(fw, role)
		return
	}
	shapes := append([]api.Shape{}, call.Shapes...) // never nil, which would mean that none was stated
	if before, stated := fw.demand[role]; stated && slices.EqualFunc(before, shapes, sameShape) {
		return // it is what is left of the demand by our own count
	}
	r.state(fw, role, shapes)
}

// state makes this the demand: here, where it is shown, and in the policy. Nobody else changes either. (R38)
func (r *demands) state(fw *framework, role api.Role, shapes []api.Shape) {
	fw.share.Add(view.Tally{Shapes: len(shapes) - len(fw.demand[role])})
	fw.demand[role] = shapes
	r.policy.SetDemand(fw.id, role, shapes)
}

// unstate forgets that a demand was stated in the role.
func (r *demands) unstate(fw *framework, role api.Role) {
	fw.share.Take(view.Tally{Shapes: len(fw.demand[role])})
	delete(fw.demand, role)
	r.policy.SetDemand(fw.id, role, nil)
}

// countDown takes all tasks that an accept names off what its framework still wants, once, when the accept comes:
// also those that will be refused, for the status of each says what became of it, and who wants it still says so
// anew. What is left counts for the policy from here on. (R38)
func (r *demands) countDown(x *acceptance) {
	fw := x.session.framework
	shapes := slices.Clone(fw.demand[x.role])
	counted := false
	suits := func(shape *api.Shape) bool { return r.suits(shape, x) }
	for i := range x.operations {
		tasks := protocol.Counted(&x.operations[i])
		for j := range tasks {
			counted = protocol.CountDown(shapes, &tasks[j], suits) >= 0 || counted
		}
	}
	if counted {
		r.state(fw, x.role, protocol.Wanted(shapes))
	}
}

// suits reports whether the agent of the accept may serve the shape, whether or not there is room.
func (r *demands) suits(shape *api.Shape, x *acceptance) bool {
	return (!shape.OnlyPreferred || slices.Contains(shape.Preferred, x.agent.id)) && r.compileAll(shape.Constraint).hold(x.role, x.agent)
}

func sameShape(a, b api.Shape) bool {
	return a.Count == b.Count && a.Constraint == b.Constraint && a.OnlyPreferred == b.OnlyPreferred &&
		a.Resources.Equal(b.Resources) && slices.Equal(a.Preferred, b.Preferred) && slices.Equal(a.Spread, b.Spread) && a.Group == b.Group
}

func (r *demands) checkShapes(fw *framework, role api.Role, shapes []api.Shape) (api.Kind, error) {
	if len(shapes) > api.DemandsPerRoleMax {
		return api.Limit, fmt.Errorf("%d shapes, at most %d are allowed", len(shapes), api.DemandsPerRoleMax)
	}
	if err := fw.share.RoomForShapes(len(shapes) - len(fw.demand[role])); err != nil {
		return api.Limit, err
	}
	if n := constraintsOf(fw, role, shapes); n > constraintsMax {
		return api.Limit, fmt.Errorf("%d different constraints in the demand of all its roles, at most %d are allowed", n, constraintsMax)
	}
	for i, shape := range shapes {
		if err := shape.Check(); err != nil {
			return api.Invalid, fmt.Errorf("shape %d: %w", i+1, err)
		}
		if err := r.checkConstraint(shape.Constraint); err != nil {
			return api.Invalid, fmt.Errorf("shape %d: %w", i+1, err)
		}
	}
	return 0, nil
}

// constraintsMax bounds the different constraints in a framework's demand: each is kept as a
// program, and judged for each kind of agent. A demand with more is refused (Limit).
const constraintsMax = 256

// constraintsOf counts the different constraints of the framework's demand, once the role's is
// made of these shapes.
func constraintsOf(fw *framework, role api.Role, shapes []api.Shape) int {
	different := make(map[string]bool)
	note := func(shapes []api.Shape) {
		for _, shape := range shapes {
			if shape.Constraint != "" {
				different[shape.Constraint] = true
			}
		}
	}
	note(shapes)
	for other, shapes := range fw.demand { // order: irrelevant because they are counted
		if other != role {
			note(shapes)
		}
	}
	return len(different)
}
