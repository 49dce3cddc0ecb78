package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// demands is what the framework has said of the offers it wants; every session is told
// anew.
type demands struct {
	roles      []api.Role
	suppressed map[api.Role]bool
	wanted     map[api.Role]wanted
	statements uint64 // so far
	// untold: the session at hand has begun without offers, for it has not been told yet what is wanted.
	untold bool
	// stated are demands that wait for answers, in the order in which they came.
	stated []DemandStated
}

// wanted is the demand of a role, counted down by what was launched since it was stated: each launch once, so that
// the next session is told what is left. (Protocol rule R38.)
type wanted struct {
	statement uint64      // the number of its statement
	shapes    []api.Shape // those that are met keep their place, with a count of 0
}

// launched is where the tasks of an accept were counted.
type launched struct {
	role      api.Role
	statement uint64
	shapes    []int
}

func newDemands(config Config) demands {
	d := demands{roles: config.Framework.Roles, suppressed: make(map[api.Role]bool), wanted: make(map[api.Role]wanted)}
	if len(config.Suppressed) > 0 {
		d.suppress(config.Suppressed)
	}
	return d
}

// suppress and revive take no roles as all of them.
func (d *demands) suppress(roles []api.Role) {
	for _, role := range d.named(roles) {
		d.suppressed[role] = true
	}
}

func (d *demands) revive(roles []api.Role) {
	for _, role := range d.named(roles) {
		delete(d.suppressed, role)
	}
}

func (d *demands) named(roles []api.Role) []api.Role {
	if len(roles) == 0 {
		return d.roles
	}
	return roles
}

// state has a demand wait for the answers that it is behind.
func (d *demands) state(demand DemandStated) { d.stated = append(d.stated, demand) }

// next takes the first demand that waits, if the calls of Offers up to the number were answered.
func (d *demands) next(answered uint64) (demand api.Demand, ok bool) {
	if len(d.stated) == 0 || d.stated[0].Behind > answered {
		return demand, false
	}
	demand = d.stated[0].Demand
	d.stated = d.stated[1:]
	return demand, true
}

// replace notes the demand and whether its role has to be revived for it.
func (d *demands) replace(demand api.Demand) (revive bool) {
	d.statements++
	d.wanted[demand.Role] = wanted{statement: d.statements, shapes: slices.Clone(demand.Shapes)}
	if len(demand.Shapes) == 0 || !d.suppressed[demand.Role] {
		return false
	}
	d.revive([]api.Role{demand.Role})
	return true
}

// left is what is left of the role's demand, if one was stated.
func (d *demands) left(role api.Role) (shapes []api.Shape, stated bool) {
	demand, stated := d.wanted[role]
	if !stated {
		return nil, false
	}
	return protocol.Wanted(demand.shapes), true
}

// begin lists the roles in which a session starts suppressed: all of them while it is not told what is wanted, be it
// because the scheduler may say so when it is called Subscribed, be it that it has said so before. An offer before that
// would fit by chance.
func (d *demands) begin(asksFirst bool) []api.Role {
	if d.untold = asksFirst || len(d.wanted) > 0; d.untold {
		return d.roles
	}
	return d.rolesThat(func(role api.Role) bool { return d.suppressed[role] })
}

// tell ends that: it lists the roles in which there may be offers from now on.
func (d *demands) tell() []api.Role {
	if !d.untold {
		return nil
	}
	d.untold = false
	return d.rolesThat(func(role api.Role) bool { return !d.suppressed[role] })
}

func (d *demands) rolesThat(keep func(api.Role) bool) []api.Role {
	var roles []api.Role
	for _, role := range d.roles {
		if keep(role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// calls tells a new session of the demand.
func (d *demands) calls() []protocol.SchedulerCall {
	var calls []protocol.SchedulerCall
	for _, role := range d.roles {
		if _, stated := d.wanted[role]; stated {
			calls = append(calls, d.call(role))
		}
	}
	return calls
}

// call tells what is left of the demand of a role that has one.
func (d *demands) call(role api.Role) protocol.SetDemand {
	return protocol.SetDemand{Demand: api.Demand{Role: role, Shapes: protocol.Wanted(d.wanted[role].shapes)}}
}

// launch counts the tasks of an accept at the spot. What constraints say of the agent only the leader knows: it tells
// apart by them what asks for the same, here the first counts.
func (d *demands) launch(at spot, operations []api.Operation) launched {
	demand, stated := d.wanted[at.role]
	if !stated {
		return launched{}
	}
	l := launched{role: at.role, statement: demand.statement}
	suits := func(shape *api.Shape) bool { return !shape.OnlyPreferred || slices.Contains(shape.Preferred, at.agent) }
	for i := range operations {
		tasks := protocol.Counted(&operations[i])
		for j := range tasks {
			if at := protocol.CountDown(demand.shapes, &tasks[j], suits); at >= 0 {
				l.shapes = append(l.shapes, at)
			}
		}
	}
	return l
}

// undo takes a launch back that the leader has refused: it has not counted it. A demand that was stated since does not
// count it either.
func (d *demands) undo(l launched) {
	demand := d.wanted[l.role]
	if demand.statement != l.statement {
		return
	}
	for _, at := range l.shapes {
		demand.shapes[at].Count++
	}
}

// join replaces the roles; what was wished for one that is left is forgotten.
func (d *demands) join(roles []api.Role) {
	for _, role := range d.roles {
		if !slices.Contains(roles, role) {
			delete(d.suppressed, role)
			delete(d.wanted, role)
		}
	}
	d.roles = roles
}

// tellDemands tells the demands that were stated, each behind the answers of the calls of Offers that had begun when it
// was: whoever states one there has counted what those answers launch. (Protocol rule R38.)
func (c *Core) tellDemands() {
	for demand, ok := c.demands.next(c.calls.answeredOffers); ok; demand, ok = c.demands.next(c.calls.answeredOffers) {
		if !slices.Contains(c.demands.roles, demand.Role) {
			continue
		}
		revive := c.demands.replace(demand)
		c.sendCall(c.demands.call(demand.Role))
		if revive {
			c.sendCall(protocol.Revive{Roles: []api.Role{demand.Role}})
		}
	}
}
