package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wallclock"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
)

// maintenance drains agents, either at once, when they are marked, or when their maintenance window begins (R31).
type maintenance struct {
	*base
	proposals *proposals
	standing  *standing
	offers    *offers
	inverses  *inverses
}

// Maintenance is a drain that is planned for later. Until the window begins, offers of the agent carry it, and
// frameworks that have something on the agent are asked to leave. Then the agent is drained like any other. When the
// window ends, the agent is offered again. The registry keeps the window and whether it has begun, so a new leader
// continues in the same way.

// maintenanceWindow is an agent's planned maintenance, if there is one.
type maintenanceWindow struct {
	planned api.Window // as last seen in the registry
	begun   bool
	turn    *deadline // when the window begins, then when it ends
}

// SetMaintenance plans a window for agents; a window without a start cancels it.
type SetMaintenance struct {
	Agents []string // each a whole ID or a whole hostname
	Window api.Window
}

// request plans the window for all of the agents or for none.
func (action SetMaintenance) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	const op = "maintenance.set"
	change := registry.SetMaintenance{Window: action.Window}
	switch {
	case len(action.Agents) == 0:
		return api.E(op, api.Invalid, "", errors.New("no agent is named"))
	case !action.Window.Start.IsZero() && action.Window.Over(c.now):
		return api.E(op, api.Invalid, "", fmt.Errorf("the window %s is over", windowText(action.Window)))
	}
	for _, name := range action.Agents {
		a, err := c.findAgent(op, name)
		if err != nil {
			return err
		}
		if !by.Covers(agentObject(a)) {
			return rights.RefuseAction("set-maintenance", by.Who, agentObject(a))
		}
		change.Agents, change.Saw = append(change.Agents, a.id), append(change.Saw, c.registry.Agents[a.id].MarksVersion)
	}
	done := "no maintenance is planned any more"
	if !action.Window.Start.IsZero() {
		done = "maintenance " + windowText(action.Window)
	}
	c.proposeFor(id, op, strings.Join(action.Agents, ", "), change, fmt.Sprintf("%s: %s", strings.Join(action.Agents, ", "), done))
	return nil
}

func windowText(window api.Window) string {
	start := window.Start.UTC().Format(time.RFC3339)
	if window.Duration == 0 {
		return "from " + start + " without an end"
	}
	return "from " + start + " for " + window.Duration.String()
}

// maintenanceChanged follows a change of the window in the registry. What was offered or asked for under the old window
// is taken back, and the drain begins or ends.
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

// planMaintenance takes the window from the registry, and sets the deadline for its beginning or end.
func (r *maintenance) planMaintenance(a *agent) {
	known := r.registry.Agents[a.id]
	if known.Maintenance != a.window.planned {
		r.inverses.withdrawLeaving(a, "the agent's maintenance has changed")
		a.window.planned = known.Maintenance
		why, what := "none", change.Canceled
		if !a.window.planned.Start.IsZero() {
			why, what = windowText(a.window.planned), change.Planned
		}
		r.note(change.Record{Kind: change.Maintenance, What: what, Agent: a.id, Why: why})
		r.info("agent maintenance", field("agent", a.id), field("window", why))
	}
	start, end := a.window.planned.Start, a.window.planned.End()
	switch {
	case start.IsZero():
		a.window.begun = false
	case !known.Maintained: // one that has begun continues even while the wall clock is in doubt
		a.window.begun = !r.moment(start).After(r.now)
	default:
		a.window.begun = true
	}
	switch {
	case start.IsZero() || known.Marks.Has(api.MarkGone):
		r.deadlines.Clear(a.window.turn)
	case r.beganTooSoon(a):
		r.deadlines.Set(a.window.turn, r.moment(r.now.Round(0)))
	case !known.Marks.Has(api.MarkDraining) || !a.window.begun:
		r.deadlines.Set(a.window.turn, r.moment(start))
	case end.IsZero():
		r.deadlines.Clear(a.window.turn)
	default:
		r.deadlines.Set(a.window.turn, r.moment(end))
	}
}

// beganTooSoon reports whether the maintenance began too soon, because the wall clock was wrong then.
func (r *maintenance) beganTooSoon(a *agent) bool {
	return r.registry.Agents[a.id].Maintained && wallclock.Until(r.now, a.window.planned.Start) > wallclock.Doubt
}

// planAll plans all windows anew, because somebody has set the wall clock.
func (r *maintenance) planAll() {
	for _, id := range sortedKeys(r.agentByID) {
		if a := r.agentByID[id]; !a.window.planned.Start.IsZero() {
			r.planMaintenance(a)
		}
	}
	for _, id := range sortedKeys(r.inverses.open) {
		if x := r.inverses.open[id]; x.reason == api.ReasonAgentDraining {
			r.deadlines.Set(x.deadline, r.moment(x.agent.window.planned.Start))
		}
	}
}

// maintenanceDue begins the window or ends it. A window that began by a wrong clock is put off.
func (r *maintenance) maintenanceDue(a *agent) {
	saw := []uint64{r.registry.Agents[a.id].MarksVersion}
	if r.beganTooSoon(a) {
		r.info("maintenance began by a wrong clock and is put off", field("agent", a.id), field("window", windowText(a.window.planned)))
		r.proposals.propose(registry.SetMaintenance{Agents: []api.AgentID{a.id}, Window: a.window.planned, Saw: saw}, turnMaintenance{a})
		return
	}
	if a.window.planned.Over(r.now) {
		r.proposals.propose(registry.SetMaintenance{Agents: []api.AgentID{a.id}, Saw: saw}, turnMaintenance{a})
		return
	}
	a.window.begun = true
	r.inverses.withdrawLeaving(a, "the agent's maintenance begins")
	r.offers.rescindAll(a.offers, "the agent's maintenance begins")
	r.standing.restate(a)
	if end := a.window.planned.End(); !end.IsZero() {
		r.deadlines.Set(a.window.turn, r.moment(end))
	}
	r.proposals.propose(registry.BeginMaintenance{ID: a.id, Saw: saw[0]}, turnMaintenance{a})
}

// maintenanceTurned continues when the registry has answered. If the agent's marks had changed since the leader looked,
// it looks again at what is due.
func (r *maintenance) maintenanceTurned(a *agent, result registry.Result) {
	if api.Is(result.Error(), api.Stale) && r.agentByID[a.id] == a {
		r.planMaintenance(a)
	}
}

// unavailable returns the window that offers of the agent carry; nil when none is planned.
func (a *agent) unavailable() *api.Window {
	if a.window.planned.Start.IsZero() {
		return nil
	}
	window := a.window.planned
	return &window
}

// drain says how far the leader has come with draining an agent.
type drain struct {
	force    bool // do not wait for acknowledgements of frameworks that are away (R31)
	told     bool // the agent was told to drain in this session
	proposed bool // the registry was asked to mark the agent drained
}

// tellDrain tells the agent to kill its tasks and refuse new ones, or that the drain is over.
func (r *maintenance) tellDrain(a *agent) {
	if !a.phase.Reported() {
		return // told when it is back
	}
	on := r.marks(a).Has(api.MarkDraining)
	if on || a.drain.told {
		a.drain.told = on
		r.tellAgent(a, protocol.Drain{On: on, Grace: r.registry.Agents[a.id].Grace})
	}
}

// resendDrain tells an agent that is back whether it is to drain. It may have missed that this has changed.
func (r *maintenance) resendDrain(a *agent) {
	a.drain.told = r.marks(a).Has(api.MarkDraining)
	r.tellAgent(a, protocol.Drain{On: a.drain.told, Grace: r.registry.Agents[a.id].Grace})
}

// checkDrained marks a draining agent drained once it has reported, nothing runs on it, and no end waits for an
// acknowledgement (R31).
func (r *maintenance) checkDrained(a *agent) {
	marks := r.marks(a)
	if !marks.Has(api.MarkDraining) || marks.Has(api.MarkDrained) || !a.phase.Reported() || a.drain.proposed || !r.emptied(a) {
		return
	}
	if a.report != nil {
		return // its tasks are still being taken from its report, one by one
	}
	a.drain.proposed = true
	known := r.registry.Agents[a.id]
	change := registry.MarkAgent{ID: a.id, Saw: known.MarksVersion, Set: api.MarkDrained, Grace: known.Grace, Why: known.Why}
	r.proposals.propose(change, markDrained{a})
}

// drainedAnswered continues when the registry has answered. If the agent's marks had changed since the leader looked, it
// looks again.
func (r *maintenance) drainedAnswered(a *agent, result registry.Result) {
	a.drain.proposed = false
	if api.Is(result.Error(), api.Stale) && r.agentByID[a.id] == a {
		r.checkDrained(a)
	}
}

// emptied reports whether nothing runs on the agent, and every end that is awaited was acknowledged.
func (r *maintenance) emptied(a *agent) bool {
	for _, t := range a.tasks { // order: irrelevant because one is enough
		if !t.status.State.Terminal() || a.awaits(t.framework) {
			return false
		}
	}
	return true
}

// awaits reports whether the agent's drain waits until the framework acknowledges the ends of its tasks. It does not
// wait for one to which nobody comes back (R67), nor, if it was forced, for any that is away.
func (a *agent) awaits(fw *framework) bool {
	return fw.session != nil || !a.drain.force && !fw.info.Detached()
}

// unacknowledged returns the frameworks for which the agent's drain waits although all of their tasks there have ended.
func (a *agent) unacknowledged() (ids []api.FrameworkID) {
	if !a.drain.told {
		return nil
	}
	for _, t := range a.tasks { // order: irrelevant because they are sorted
		if t.status.State.Terminal() && a.awaits(t.framework) {
			ids = append(ids, t.framework.info.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
