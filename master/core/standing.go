package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/life"
)

// standing is the state of agents as people see it, and whether the policy may offer them. Whoever changes an agent
// calls restate, which tells the policy what has changed for it, and nothing else.
type standing struct {
	*base
	takers map[api.FrameworkID]bool // frameworks that take revocable resources
}

// agentStanding is how an agent stands, as people and the policy were told last.
type agentStanding struct {
	state    api.AgentState
	since    time.Time
	why      string
	withheld string // why the policy may not offer it; "" = it may
	// policyStale: the policy is to be told of it again, though that is the same.
	policyStale bool
	gapTold     api.Resources // to the policy
}

// condition is the state that a list shows, and why.
func (r *standing) condition(a *agent) (api.AgentState, string) {
	switch a.phase {
	case life.Tombstone, life.Overdue, life.Returning:
		return api.AgentTombstone, a.gone
	case life.Away:
		return api.AgentDisconnected, a.gone
	case life.Reporting:
		return api.AgentDisconnected, "back, its report is not yet in"
	case life.Initing:
		return api.AgentIniting, "registered, no heartbeat yet"
	case life.Up:
	}
	switch {
	case a.unable != "":
		return api.AgentRunning, "it can start nothing: " + a.unable
	case a.exhausted():
		return api.AgentBusy, "nothing is left to offer"
	}
	return api.AgentRunning, ""
}

// exhausted says that less is left than is ever worth an offer.
func (a *agent) exhausted() bool {
	return a.Left("cpus") < api.MilliOf(0.01) && a.Left("mem") < api.MilliOf(32)
}

// restate shows the agent as it now is, and tells the policy whether to offer it.
func (r *standing) restate(a *agent) {
	state, why := r.condition(a)
	if state != a.state || why != a.why {
		if state != a.state {
			a.since = r.now
			r.logState(a, state, why)
		}
		a.state, a.why = state, why
	}
	r.offerAgent(a)
}

func (r *standing) logState(a *agent, state api.AgentState, why string) {
	both := state == api.AgentBusy && a.state == api.AgentRunning || state == api.AgentRunning && a.state == api.AgentBusy
	if both { // a change between RUNNING and BUSY comes with every task, and is not logged
		return
	}
	fields := []Field{field("agent", a.id), field("state", state.String())}
	if why != "" {
		fields = append(fields, field("why", why))
	}
	r.info("agent state", fields...)
}

// whyWithheld says why the agent is not to be offered, "" when it is.
func (r *standing) whyWithheld(a *agent) string {
	marks := r.marks(a)
	switch {
	case marks.Has(api.MarkGone):
		return "marked gone"
	case a.state != api.AgentRunning && a.state != api.AgentBusy:
		return a.state.String() + ": " + a.why
	case a.unable != "":
		return a.why
	case a.reserving, a.settlesLostAccepts():
		return "what is reserved on it is being changed"
	case a.window.begun && !marks.Has(api.MarkDraining):
		return "its maintenance begins"
	case marks.Has(api.MarkDraining):
		return "draining"
	case marks.Has(api.MarkDeactivated):
		return "deactivated"
	case a.Over: // its account does not balance, so nothing of it can be booked
		return "its tasks hold more than it has"
	}
	return ""
}

// settlesLostAccepts says that accepts from before the agent was a TOMBSTONE still wait for the registry. The policy has
// forgotten what they hold, so it would take that for free.
func (a *agent) settlesLostAccepts() bool {
	return slices.ContainsFunc(a.accepts, func(x *acceptance) bool { return x.lost })
}

// offerAgent tells the policy when what it knows of the agent is no longer so.
func (r *standing) offerAgent(a *agent) {
	why := r.whyWithheld(a)
	if why == a.withheld && !a.policyStale {
		return
	}
	gap := r.gapToTell(a)
	a.withheld, a.policyStale, a.gapTold = why, false, gap
	if a.phase.Dead() {
		r.policy.RemoveAgent(a.id)
		return
	}
	r.policy.SetAgent(allocator.Agent{
		ID:         a.id,
		Hostname:   a.info.Hostname,
		Total:      a.Total.Plus(gap),
		Attributes: a.info.Attributes,
		Region:     a.info.Region,
		Zone:       a.info.Zone,
		Offerable:  why == "",
		Why:        why,
	})
}

// gapToTell is what the policy hears of: nothing while no framework takes it.
func (r *standing) gapToTell(a *agent) api.Resources {
	if len(r.takers) == 0 {
		return api.Resources{}
	}
	return a.Gap
}
