package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// demands is what the framework has said about the offers it wants. Every new session is told all of it.
type demands struct {
	roles      []api.Role
	suppressed map[api.Role]bool
	wanted     map[api.Role]wanted
	statements uint64 // number of statements so far
	// untold says that the current session has begun without offers, because the leader has not been told yet what is
	// wanted.
	untold bool
	// stated holds the demands that wait until earlier answers are sent, in the order in which they were stated.
	stated []DemandStated
}

// wanted is the demand of a role, less what was launched since it was stated. Each launch is counted once, so that the
// next session is told what is left. (Protocol rule R38.)
type wanted struct {
	statement uint64      // number of the statement from which it comes
	shapes    []api.Shape // shapes that are met stay in their place, with a count of 0
}

// launched says by which shapes the tasks of an accept were counted.
type launched struct {
	role      api.Role
	statement uint64
	shapes    []int
}

func newDemands(config Config) *demands {
	d := &demands{roles: config.Framework.Roles, suppressed: make(map[api.Role]bool), wanted: make(map[api.Role]wanted)}
	if len(config.Suppressed) > 0 {
		d.suppressRoles(config.Suppressed)
	}
	return d
}

// suppressRoles and reviveRoles mean all roles when none is named.
func (d *demands) suppressRoles(roles []api.Role) {
	for _, role := range d.rolesMeant(roles) {
		d.suppressed[role] = true
	}
}

func (d *demands) reviveRoles(roles []api.Role) {
	for _, role := range d.rolesMeant(roles) {
		delete(d.suppressed, role)
	}
}

func (d *demands) rolesMeant(roles []api.Role) []api.Role {
	if len(roles) == 0 {
		return d.roles
	}
	return roles
}

// queueDemand queues a demand until the answers that come before it are sent.
func (d *demands) queueDemand(demand DemandStated) { d.stated = append(d.stated, demand) }

// nextDemand returns the first queued demand, if the answers of all calls of Offers before it, up to the number answered,
// have been sent.
func (d *demands) nextDemand(answered uint64) (demand api.Demand, ok bool) {
	if len(d.stated) == 0 || d.stated[0].Behind > answered {
		return demand, false
	}
	demand = d.stated[0].Demand
	d.stated = d.stated[1:]
	return demand, true
}

// replaceDemand stores the demand, and reports whether its role has to be revived for it.
func (d *demands) replaceDemand(demand api.Demand) (revive bool) {
	d.statements++
	d.wanted[demand.Role] = wanted{statement: d.statements, shapes: slices.Clone(demand.Shapes)}
	if len(demand.Shapes) == 0 || !d.suppressed[demand.Role] {
		return false
	}
	d.reviveRoles([]api.Role{demand.Role})
	return true
}

// demandLeft returns what is left of the role's demand, if one was stated.
func (d *demands) demandLeft(role api.Role) (shapes []api.Shape, stated bool) {
	demand, stated := d.wanted[role]
	if !stated {
		return nil, false
	}
	return protocol.Wanted(demand.shapes), true
}

// rolesToSilence lists the roles in which a session starts suppressed. These are all roles while the leader does not know what
// is wanted: because the scheduler may state it in Subscribed, or because it was stated in an earlier session. An offer
// before that would fit only by chance.
func (d *demands) rolesToSilence(asksFirst bool) []api.Role {
	if d.untold = asksFirst || len(d.wanted) > 0; d.untold {
		return d.roles
	}
	return d.rolesThat(func(role api.Role) bool { return d.suppressed[role] })
}

// endSilence ends that suppression: it lists the roles in which there may be offers from now on.
func (d *demands) endSilence() []api.Role {
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

// callsForSession returns the calls that tell a new session what is wanted.
func (d *demands) callsForSession() []protocol.SchedulerCall {
	var calls []protocol.SchedulerCall
	for _, role := range d.roles {
		if _, stated := d.wanted[role]; stated {
			calls = append(calls, d.callFor(role))
		}
	}
	return calls
}

// callFor returns the call that tells what is left of the demand of a role.
func (d *demands) callFor(role api.Role) protocol.SetDemand {
	return protocol.SetDemand{Demand: api.Demand{Role: role, Shapes: protocol.Wanted(d.wanted[role].shapes)}}
}

// countLaunch counts the tasks of an accept at the spot. Several shapes may ask for the same, and differ only by
// constraints. Which constraint the agent meets only the leader knows, so here the first such shape counts.
func (d *demands) countLaunch(at spot, operations []api.Operation) launched {
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

// undoLaunch takes back a launch that the leader has refused and therefore has not counted. A demand that was stated since
// then has not counted it either.
func (d *demands) undoLaunch(l launched) {
	demand := d.wanted[l.role]
	if demand.statement != l.statement {
		return
	}
	for _, at := range l.shapes {
		demand.shapes[at].Count++
	}
}

// replaceRoles replaces the roles. What was asked for in a role that is left is forgotten.
func (d *demands) replaceRoles(roles []api.Role) {
	for _, role := range d.roles {
		if !slices.Contains(roles, role) {
			delete(d.suppressed, role)
			delete(d.wanted, role)
		}
	}
	d.roles = roles
}

// tellDemands sends the demands that were stated, each behind the answers of all calls of Offers that had begun by
// then: a scheduler that states a demand in Offers has already taken off what these answers launch. (Protocol rule
// R38.)
func (a *answers) tellDemands() {
	for demand, ok := a.demands.nextDemand(a.calls.answeredOffers); ok; demand, ok = a.demands.nextDemand(a.calls.answeredOffers) {
		if !slices.Contains(a.demands.roles, demand.Role) {
			continue
		}
		revive := a.demands.replaceDemand(demand)
		a.session.sendCall(a.demands.callFor(demand.Role))
		if revive {
			a.session.sendCall(protocol.Revive{Roles: []api.Role{demand.Role}})
		}
	}
}
