// Package wants keeps what a framework wants, by role, and in which roles it wants nothing now. People are shown this
// state and the policy works with it; code that changes it tells the policy. (Protocol rule R38.)
package wants

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Wants is what one framework wants. Make it with New.
type Wants struct {
	suppressed map[api.Role]bool
	demand     map[api.Role][]api.Shape // a list without shapes is a demand for nothing
	from       api.Nonce                // the instance of the scheduler that stated the demand
}

// New returns the wants of a framework that has said nothing yet.
func New() Wants {
	return Wants{suppressed: make(map[api.Role]bool), demand: make(map[api.Role][]api.Shape)}
}

// Suppress notes that the framework wants no offers in these roles.
func (w *Wants) Suppress(roles []api.Role) {
	for _, role := range roles {
		w.suppressed[role] = true
	}
}

// Revive notes that the framework wants offers in these roles again.
func (w *Wants) Revive(roles []api.Role) {
	for _, role := range roles {
		delete(w.suppressed, role)
	}
}

// SuppressOnly notes that the framework wants no offers in exactly these roles.
func (w *Wants) SuppressOnly(roles []api.Role) {
	clear(w.suppressed)
	w.Suppress(roles)
}

// Suppressed lists the roles in which the framework wants no offers.
func (w *Wants) Suppressed() []api.Role { return slices.Sorted(maps.Keys(w.suppressed)) }

// Demand lists the demands that the framework has stated, by role.
func (w *Wants) Demand() []api.Demand {
	var all []api.Demand
	for _, role := range w.Stated() {
		all = append(all, api.Demand{Role: role, Shapes: w.demand[role]})
	}
	return all
}

// Stated lists the roles in which the framework has stated a demand.
func (w *Wants) Stated() []api.Role { return slices.Sorted(maps.Keys(w.demand)) }

// In returns the framework's demand in the role.
func (w *Wants) In(role api.Role) []api.Shape { return w.demand[role] }

// Shapes returns the number of shapes in all demands of the framework.
func (w *Wants) Shapes() int {
	count := 0
	for _, shapes := range w.demand { // order: irrelevant because it sums
		count += len(shapes)
	}
	return count
}

// Awaited lists the agents that shapes in the role wait for: no other agent is offered for them.
func (w *Wants) Awaited(role api.Role) []api.AgentID {
	var all []api.AgentID
	for _, shape := range w.demand[role] {
		if shape.OnlyPreferred {
			all = append(all, shape.Preferred...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Awaits reports whether a shape in any role waits for the agent.
func (w *Wants) Awaits(agent api.AgentID) bool {
	for _, shapes := range w.demand { // order: irrelevant because one is enough
		for i := range shapes {
			if shapes[i].OnlyPreferred && slices.Contains(shapes[i].Preferred, agent) {
				return true
			}
		}
	}
	return false
}

// FromAnother reports whether the demand was stated by another instance than this one. It also notes this instance,
// which will state its own demand.
func (w *Wants) FromAnother(instance api.Nonce) bool {
	before := w.from
	w.from = instance
	return before != instance
}

// State replaces the demand in the role, and returns by how many shapes it grew.
func (w *Wants) State(role api.Role, shapes []api.Shape) (more int) {
	more = len(shapes) - len(w.demand[role])
	w.demand[role] = shapes
	return more
}

// Unstate forgets the demand in the role, and returns how many shapes it had.
func (w *Wants) Unstate(role api.Role) (less int) {
	less = len(w.demand[role])
	delete(w.demand, role)
	return less
}

// IsStated reports whether these shapes are the framework's demand in the role already.
func (w *Wants) IsStated(role api.Role, shapes []api.Shape) bool {
	before, stated := w.demand[role]
	return stated && slices.EqualFunc(before, shapes, sameShape)
}

func sameShape(a, b api.Shape) bool {
	return a.Count == b.Count && a.Constraint == b.Constraint && a.OnlyPreferred == b.OnlyPreferred &&
		a.Resources.Equal(b.Resources) && slices.Equal(a.Preferred, b.Preferred) && slices.Equal(a.Spread, b.Spread) && a.Group == b.Group
}

// CountDown subtracts launched tasks from the demand in the role, and returns what the framework still wants there. It
// returns false when no launched task was part of the demand. The function suits reports whether the agent of the
// launch suits a shape.
func (w *Wants) CountDown(role api.Role, operations []api.Operation, suits func(*api.Shape) bool) (left []api.Shape, counted bool) {
	shapes := slices.Clone(w.demand[role])
	for i := range operations {
		tasks := protocol.Counted(&operations[i])
		for j := range tasks {
			counted = protocol.CountDown(shapes, &tasks[j], suits) >= 0 || counted
		}
	}
	if !counted {
		return nil, false
	}
	return protocol.Wanted(shapes), true
}

// Check says why these shapes can't be the framework's demand in the role; nil when they can. The function room says
// whether there is room for that many more shapes; usable says whether a constraint can be used.
func (w *Wants) Check(role api.Role, shapes []api.Shape, room func(more int) error, usable func(constraint string) error) (api.Kind, error) {
	if len(shapes) > api.DemandsPerRoleMax {
		return api.Limit, fmt.Errorf("%d shapes, at most %d are allowed", len(shapes), api.DemandsPerRoleMax)
	}
	if err := room(len(shapes) - len(w.demand[role])); err != nil {
		return api.Limit, err
	}
	if n := w.constraints(role, shapes); n > constraintsMax {
		return api.Limit, fmt.Errorf("%d different constraints in the demand of all its roles, at most %d are allowed", n, constraintsMax)
	}
	for i, shape := range shapes {
		if err := shape.Check(); err != nil {
			return api.Invalid, fmt.Errorf("shape %d: %w", i+1, err)
		}
		if err := usable(shape.Constraint); err != nil {
			return api.Invalid, fmt.Errorf("shape %d: %w", i+1, err)
		}
	}
	return 0, nil
}

// constraintsMax bounds the different constraints in a framework's demand. Each is kept as a compiled program, and
// evaluated for each kind of agent. A demand with more is refused (Limit).
const constraintsMax = 256

// constraints counts the different constraints in all demands of the framework, if the role's demand consisted of these
// shapes.
func (w *Wants) constraints(role api.Role, shapes []api.Shape) int {
	different := make(map[string]bool)
	note := func(shapes []api.Shape) {
		for _, shape := range shapes {
			if shape.Constraint != "" {
				different[shape.Constraint] = true
			}
		}
	}
	note(shapes)
	for other, shapes := range w.demand { // order: irrelevant because they are counted
		if other != role {
			note(shapes)
		}
	}
	return len(different)
}
