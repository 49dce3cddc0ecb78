package framework

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// wishes is what the framework has said of the offers it wants; every session is told
// anew.
type wishes struct {
	roles      []api.Role
	suppressed map[api.Role]bool
	demands    map[api.Role]*wanted
	// untold: the session at hand has begun without offers, for it has not been told yet what is wanted.
	untold bool
}

// wanted is the demand of a role, counted down by what was launched since it was stated: each launch once, so that
// the next session is told what is left. (Protocol rule R38.)
type wanted struct {
	shapes []api.Shape // those that are met keep their place, with a count of 0
}

// launched is where the tasks of an accept were counted.
type launched struct {
	demand *wanted
	shapes []int
}

func newWishes(config Config) *wishes {
	w := &wishes{roles: config.Roles, suppressed: make(map[api.Role]bool), demands: make(map[api.Role]*wanted)}
	if config.Suppressed {
		w.suppress(nil)
	}
	if len(config.SuppressedRoles) > 0 {
		w.suppress(config.SuppressedRoles)
	}
	return w
}

// suppress and revive take no roles as all of them.
func (w *wishes) suppress(roles []api.Role) {
	for _, role := range w.named(roles) {
		w.suppressed[role] = true
	}
}

func (w *wishes) revive(roles []api.Role) {
	for _, role := range w.named(roles) {
		delete(w.suppressed, role)
	}
}

func (w *wishes) named(roles []api.Role) []api.Role {
	if len(roles) == 0 {
		return w.roles
	}
	return roles
}

// demand notes the demand and whether its role has to be revived for it.
func (w *wishes) demand(demand api.Demand) (revive bool) {
	w.demands[demand.Role] = &wanted{shapes: slices.Clone(demand.Shapes)}
	if len(demand.Shapes) == 0 || !w.suppressed[demand.Role] {
		return false
	}
	w.revive([]api.Role{demand.Role})
	return true
}

// begin lists the roles in which a session starts suppressed: all of them while it is not told what is wanted, be it
// because the scheduler may say so when it is called Subscribed, be it that it has said so before. An offer before that
// would fit by chance.
func (w *wishes) begin(asksFirst bool) []api.Role {
	if w.untold = asksFirst || len(w.demands) > 0; w.untold {
		return w.roles
	}
	return w.rolesThat(func(role api.Role) bool { return w.suppressed[role] })
}

// tell ends that: it lists the roles in which there may be offers from now on.
func (w *wishes) tell() []api.Role {
	if !w.untold {
		return nil
	}
	w.untold = false
	return w.rolesThat(func(role api.Role) bool { return !w.suppressed[role] })
}

func (w *wishes) rolesThat(keep func(api.Role) bool) []api.Role {
	var roles []api.Role
	for _, role := range w.roles {
		if keep(role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// calls tells a new session of the demand.
func (w *wishes) calls() []protocol.SchedulerCall {
	var calls []protocol.SchedulerCall
	for _, role := range w.roles {
		if w.demands[role] != nil {
			calls = append(calls, w.call(role))
		}
	}
	return calls
}

// call tells what is left of the demand of a role that has one.
func (w *wishes) call(role api.Role) protocol.SetDemand {
	return protocol.SetDemand{Demand: api.Demand{Role: role, Shapes: protocol.Wanted(w.demands[role].shapes)}}
}

// launch counts the tasks of an accept at the spot. What constraints say of the agent only the leader knows: it tells
// apart by them what asks for the same, here the first counts.
func (w *wishes) launch(at spot, operations []api.Operation) launched {
	l := launched{demand: w.demands[at.role]}
	if l.demand == nil {
		return l
	}
	suits := func(shape *api.Shape) bool { return !shape.OnlyPreferred || slices.Contains(shape.Preferred, at.agent) }
	eachTask(operations, func(task *api.Task) {
		if i := protocol.CountDown(l.demand.shapes, task, suits); i >= 0 {
			l.shapes = append(l.shapes, i)
		}
	})
	return l
}

// undo takes a launch back that the leader has refused: it has not counted it.
func (l launched) undo() {
	for _, at := range l.shapes {
		l.demand.shapes[at].Count++
	}
}

// join replaces the roles; what was wished for one that is left is forgotten.
func (w *wishes) join(roles []api.Role) {
	for _, role := range w.roles {
		if !slices.Contains(roles, role) {
			delete(w.suppressed, role)
			delete(w.demands, role)
		}
	}
	w.roles = roles
}
