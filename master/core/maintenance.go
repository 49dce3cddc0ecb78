package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// maintenance drains agents: now, when they are marked, or when the window of their maintenance begins (R31).
type maintenance struct {
	*base
	proposals *proposals
	standing  *standing
	offers    *offers
	inverses  *inverses
}

// Maintenance is a drain with an appointment. Until its window begins, offers of the
// agent carry it and frameworks that have something there are asked to leave; then the
// agent is drained like any other; when the window ends, it is offered again. The
// registry keeps the window and whether it has begun, so each leader goes on alike.

// maintenanceWindow is an agent's maintenance, if there is one.
type maintenanceWindow struct {
	planned api.Window // as last seen in the registry
	begun   bool
	turn    *deadline // when it begins, then when it ends
}

// SetMaintenance gives agents a window; one without a start takes it away.
type SetMaintenance struct {
	Agents []string // each a whole ID or a whole hostname
	Window api.Window
}

// request plans for all of the agents or for none.
func (action SetMaintenance) request(c *Core, id RequestID, by rights.Scope) {
	const op = "maintenance.set"
	change := registry.SetMaintenance{Window: action.Window}
	if err := c.checkMaintenance(action); err != nil {
		c.emit(Reply{ID: id, Err: err})
		return
	}
	for _, name := range action.Agents {
		a, err := c.findAgent(op, name)
		if err != nil {
			c.emit(Reply{ID: id, Err: err})
			return
		}
		if !by.Covers(agentObject(a)) {
			c.deny(id, "set-maintenance", by, agentObject(a))
			return
		}
		change.Agents = append(change.Agents, a.id)
	}
	done := "no maintenance is planned any more"
	if !action.Window.Start.IsZero() {
		done = "maintenance " + windowText(action.Window)
	}
	c.proposeFor(id, op, strings.Join(action.Agents, ", "), change, fmt.Sprintf("%s: %s", strings.Join(action.Agents, ", "), done))
}

func (c *Core) checkMaintenance(action SetMaintenance) *api.Error {
	const op = "maintenance.set"
	switch {
	case !c.registry.Knows(registry.FormatMaintenance):
		return api.E(op, api.Unsupported, "", errors.New(
			"not every master is known to be of a version that has maintenance windows; upgrade them, start those that are down or remove them from the quorum"))
	case len(action.Agents) == 0:
		return api.E(op, api.Invalid, "", errors.New("no agent is named"))
	case !action.Window.Start.IsZero() && action.Window.Over(c.now):
		return api.E(op, api.Invalid, "", fmt.Errorf("the window %s is over", windowText(action.Window)))
	}
	return nil
}

func windowText(window api.Window) string {
	start := window.Start.UTC().Format(time.RFC3339)
	if window.Duration == 0 {
		return "from " + start + " without an end"
	}
	return "from " + start + " for " + window.Duration.String()
}

// maintenanceChanged follows the registry: what was offered or asked for under the old
// window is taken back, and the drain begins or ends.
func (r *agents) maintenanceChanged(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	if r.registry.Agents[id].Maintenance != a.window.planned {
		r.offers.rescindAll(a.offers, "the agent's maintenance has changed")
	}
	if r.marks(a) != a.marked {
		r.agentMarked(id)
	}
	r.maintenance.planMaintenance(a)
	r.standing.restate(a)
	r.inverses.askToLeave(a)
}

// planMaintenance sets the clock by what the registry says.
func (r *maintenance) planMaintenance(a *agent) {
	known := r.registry.Agents[a.id]
	if known.Maintenance != a.window.planned {
		r.inverses.withdrawLeaving(a, "the agent's maintenance has changed")
		a.window.planned = known.Maintenance
		why := "none"
		if !a.window.planned.Start.IsZero() {
			why = windowText(a.window.planned)
		}
		r.info("agent maintenance", field("agent", a.id), field("window", why))
	}
	start, end := a.window.planned.Start, a.window.planned.End()
	switch {
	case start.IsZero():
		a.window.begun = false
	case !known.Maintained: // what has begun goes on while nobody knows whether the clock is right
		a.window.begun = !r.moment(start).After(r.now)
	default:
		a.window.begun = true
	}
	switch {
	case start.IsZero() || known.Marks.Has(api.MarkGone):
		r.deadlines.clear(a.window.turn)
	case r.beganTooSoon(a):
		r.deadlines.set(a.window.turn, r.moment(r.now.Round(0)))
	case !known.Marks.Has(api.MarkDraining) || !a.window.begun:
		r.deadlines.set(a.window.turn, r.moment(start))
	case end.IsZero():
		r.deadlines.clear(a.window.turn)
	default:
		r.deadlines.set(a.window.turn, r.moment(end))
	}
}

// beganTooSoon says that the maintenance has begun by a clock that was wrong.
func (r *maintenance) beganTooSoon(a *agent) bool {
	return r.registry.Agents[a.id].Maintained && r.until(a.window.planned.Start) > clockDoubt
}

// planAll plans anew what is planned for moments of the calendar: the wall clock was set.
func (r *maintenance) planAll() {
	for _, id := range sortedKeys(r.agentByID) {
		if a := r.agentByID[id]; !a.window.planned.Start.IsZero() {
			r.planMaintenance(a)
		}
	}
	for _, id := range sortedKeys(r.inverses.open) {
		if x := r.inverses.open[id]; x.reason == api.ReasonAgentDraining {
			r.deadlines.set(x.deadline, r.moment(x.agent.window.planned.Start))
		}
	}
}

// maintenanceDue begins the window, or ends it; one that began by a wrong clock is planned again.
func (r *maintenance) maintenanceDue(a *agent) {
	if r.beganTooSoon(a) {
		r.info("maintenance began by a wrong clock and is put off", field("agent", a.id), field("window", windowText(a.window.planned)))
		r.proposals.propose(registry.SetMaintenance{Agents: []api.AgentID{a.id}, Window: a.window.planned, Saw: a.window.planned})
		return
	}
	if a.window.planned.Over(r.now) {
		change := registry.SetMaintenance{Agents: []api.AgentID{a.id}, Saw: a.window.planned}
		r.proposals.propose(change)
		return
	}
	a.window.begun = true
	r.inverses.withdrawLeaving(a, "the agent's maintenance begins")
	r.offers.rescindAll(a.offers, "the agent's maintenance begins")
	r.standing.restate(a)
	if end := a.window.planned.End(); !end.IsZero() {
		r.deadlines.set(a.window.turn, r.moment(end))
	}
	r.proposals.propose(registry.BeginMaintenance{ID: a.id, Window: a.window.planned})
}

// unavailable is what offers of the agent carry.
func (a *agent) unavailable() *api.Window {
	if a.window.planned.Start.IsZero() {
		return nil
	}
	window := a.window.planned
	return &window
}

// askToLeave asks all frameworks that have something on the agent.
func (r *inverses) askToLeave(a *agent) {
	if a.window.planned.Start.IsZero() || a.window.begun || !a.phase.Reported() {
		return
	}
	holders := make(map[api.FrameworkID]bool)
	for ref, t := range a.tasks { // order: irrelevant because it fills a set
		holders[ref.Framework] = holders[ref.Framework] || t.held
	}
	for ref, x := range a.executors { // order: irrelevant because it fills a set
		holders[ref.Framework] = holders[ref.Framework] || !x.resources.IsZero()
	}
	for _, id := range sortedKeys(holders) {
		if holders[id] {
			r.askOneToLeave(r.frameworkByID[id], a)
		}
	}
}

// askFrameworkToLeave asks a framework that is back: it may have missed the first request.
func (r *inverses) askFrameworkToLeave(fw *framework) {
	asked := make(map[api.AgentID]*agent)
	for _, t := range fw.tasks { // order: irrelevant because it fills a map
		if a := t.agent; t.held && !a.window.planned.Start.IsZero() && !a.window.begun && a.phase.Reported() {
			asked[a.id] = a
		}
	}
	for _, id := range sortedKeys(asked) {
		r.closeLeaving(fw, asked[id])
		r.askOneToLeave(fw, asked[id])
	}
}

func (r *inverses) askOneToLeave(fw *framework, a *agent) {
	if fw == nil || fw.session == nil || r.leavingOf(fw, a) != nil {
		return
	}
	r.offers.minted++
	x := &inverse{id: r.term.MintInverse(r.offers.minted), framework: fw, agent: a, reason: api.ReasonAgentDraining}
	for _, t := range a.sortedTasks() {
		if t.framework == fw && t.held {
			x.tasks = append(x.tasks, t)
		}
	}
	x.deadline = newDeadline(inverseOver{x})
	r.info("inverse offer made", field("offer", x.id), field("framework", fw.id), field("agent", a.id), field("for", "maintenance"))
	r.sendInverse(x, r.moment(a.window.planned.Start), "for maintenance")
}

func (r *inverses) leavingOf(fw *framework, a *agent) *inverse {
	for _, x := range r.open { // order: irrelevant because there is at most one
		if x.reason == api.ReasonAgentDraining && x.framework == fw && x.agent == a {
			return x
		}
	}
	return nil
}

func (r *inverses) closeLeaving(fw *framework, a *agent) {
	if x := r.leavingOf(fw, a); x != nil {
		r.closeInverse(x)
	}
}

// answerLeaving remembers, for people, what the framework answered. Whatever that is, its tasks may stay until the
// window begins.
func (r *inverses) answerLeaving(x *inverse, accepted bool) {
	before, how := x.answer, view.Declined
	x.answer = "declined"
	if accepted {
		x.answer, how = "accepted", view.GaveBack
	}
	if x.answer != before {
		r.asked(x, how, "for the maintenance, which begins in "+x.deadline.at.Sub(r.now).Round(time.Second).String())
	}
	r.info("inverse offer answered", field("offer", x.id), field("framework", x.framework.id), field("answer", x.answer))
}

// withdrawLeaving takes back all requests to leave an agent.
func (r *inverses) withdrawLeaving(a *agent, why string) {
	for _, id := range sortedKeys(r.open) {
		if x := r.open[id]; x.agent == a && x.reason == api.ReasonAgentDraining {
			r.closeInverse(x)
			r.asked(x, view.Withdrawn, why)
			r.tell(x.framework, protocol.RescindInverse{Offers: []api.OfferID{id}, Why: why})
		}
	}
}

// leaving lists who was asked to leave the agent, and what they have answered.
func (r *inverses) leaving(a *agent) map[api.FrameworkID]string {
	if a.window.planned.Start.IsZero() || a.window.begun {
		return nil
	}
	answers := make(map[api.FrameworkID]string)
	for _, x := range r.open { // order: irrelevant because it fills a map
		if x.agent == a && x.reason == api.ReasonAgentDraining {
			answers[x.framework.id] = x.answer
			if x.answer == "" {
				answers[x.framework.id] = "asked"
			}
		}
	}
	return answers
}
