package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/life"
)

// standing keeps the state of agents as people see it, and whether the policy may offer them. Code that changes an
// agent calls restate, which also tells the policy what has changed for it.
type standing struct {
	*base
	takers map[api.FrameworkID]bool // frameworks that accept revocable resources
}

// takesRevocable records whether a framework accepts revocable resources, and reports whether that is now true of any for
// the first time, or of none any more.
func (r *standing) takesRevocable(fw *framework, takes bool) (changes bool) {
	before := len(r.takers)
	if takes {
		r.takers[fw.id] = true
	} else {
		delete(r.takers, fw.id)
	}
	return (before > 0) != (len(r.takers) > 0)
}

// agentStanding is an agent's state as people see it, and what the policy was last told about the agent.
type agentStanding struct {
	state    api.AgentState
	since    time.Time
	why      string
	withheld string // why the policy may not offer it; "" = it may
	// policyStale is set when the policy must be told about the agent even if withheld has not changed.
	policyStale bool
	gapTold     api.Resources // the gap that the policy was last told
}

// condition returns the state that lists show, and the reason for it.
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

// exhausted reports whether less is left than is worth an offer.
func (a *agent) exhausted() bool {
	return a.Left("cpus") < api.MilliOf(0.01) && a.Left("mem") < api.MilliOf(32)
}

// restate updates the state that people see, and tells the policy whether it may offer the agent.
func (r *standing) restate(a *agent) {
	state, why := r.condition(a)
	if state != a.state || why != a.why {
		r.noteState(a, state, why)
		if state != a.state {
			a.since = r.now
			r.logState(a, state, why)
		}
		a.state, a.why = state, why
	}
	r.offerAgent(a)
}

// isRoutine reports whether the state is RUNNING or BUSY as the one before, a change that comes with every task. It is
// neither logged nor an event.
func (a *agent) isRoutine(state api.AgentState) bool {
	return (state == api.AgentBusy || state == api.AgentRunning) && (a.state == api.AgentBusy || a.state == api.AgentRunning)
}

// noteState notes the state that the agent is about to have.
func (r *standing) noteState(a *agent, state api.AgentState, why string) {
	if state == a.state || a.isRoutine(state) {
		r.noteAgent(a, change.Figures, "")
		return
	}
	if state == api.AgentBusy {
		state = api.AgentRunning
	}
	r.noteAgent(a, change.StateOfAgent(state), why)
}

func (r *standing) logState(a *agent, state api.AgentState, why string) {
	if a.isRoutine(state) {
		return
	}
	fields := []Field{field("agent", a.id), field("state", state.String())}
	if why != "" {
		fields = append(fields, field("why", why))
	}
	r.info("agent state", fields...)
}

// whyWithheld says why the agent may not be offered; "" when it may.
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
	case a.Over: // its account does not balance, so nothing more can be booked
		return "its tasks hold more than it has"
	}
	return ""
}

// settlesLostAccepts reports whether accepts from before the agent was a TOMBSTONE still wait for the registry. The
// policy has forgotten what they hold, so it would take that as free.
func (a *agent) settlesLostAccepts() bool {
	return slices.ContainsFunc(a.accepts, func(x *acceptance) bool { return x.lost })
}

// offerAgent tells the policy about the agent, if what it was told is out of date.
func (r *standing) offerAgent(a *agent) {
	why := r.whyWithheld(a)
	if why == a.withheld && !a.policyStale {
		return
	}
	gap := r.gapToTell(a)
	r.noteAgent(a, change.Figures, "")
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

// gapToTell returns the gap that the policy is told. It is zero while no framework accepts revocable resources.
func (r *standing) gapToTell(a *agent) api.Resources {
	if len(r.takers) == 0 {
		return api.Resources{}
	}
	return a.Gap
}
