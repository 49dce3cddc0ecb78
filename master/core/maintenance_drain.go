package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// drain is how far the leader has come with draining an agent.
type drain struct {
	force    bool // without the acknowledgements of frameworks that are away (R31)
	told     bool // the agent was told of it in this session
	proposed bool // the registry was asked to mark it drained
}

// agentMarked follows the registry: offers go, the agent is told.
func (r *agents) agentMarked(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	marks := r.marks(a)
	a.marked = marks
	r.info("agent marked", field("agent", id), Field{"marks", marksText(marks)}, field("why", r.registry.Agents[id].Why))
	if marks.Has(api.MarkGone) {
		r.endAgent(a, "marked gone: "+r.registry.Agents[id].Why)
		r.goneForgotten()
		return
	}
	r.maintenance.planMaintenance(a)
	if marks != 0 {
		r.offers.rescindAll(a.offers, "the agent is marked "+marksText(marks))
	}
	if !marks.Has(api.MarkDraining) {
		a.drain.force, a.drain.proposed = false, false
	}
	if !marks.Has(api.MarkDrained) {
		r.maintenance.tellDrain(a)
	}
	r.standing.restate(a)
	r.maintenance.checkDrained(a)
}

// tellDrain tells the agent to kill its tasks and refuse new ones, or to stop that.
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

// resendDrain tells an agent that is back; it may have missed either word.
func (r *maintenance) resendDrain(a *agent) {
	a.drain.told = r.marks(a).Has(api.MarkDraining)
	r.tellAgent(a, protocol.Drain{On: a.drain.told, Grace: r.registry.Agents[a.id].Grace})
}

// checkDrained marks a draining agent drained once it has reported and nothing of it
// runs or waits for an acknowledgement (R31).
func (r *maintenance) checkDrained(a *agent) {
	marks := r.marks(a)
	if !marks.Has(api.MarkDraining) || marks.Has(api.MarkDrained) || !a.phase.Reported() || a.drain.proposed || !r.emptied(a) {
		return
	}
	a.drain.proposed = true
	known := r.registry.Agents[a.id]
	change := registry.MarkAgent{ID: a.id, Set: api.MarkDrained, Grace: known.Grace, Why: known.Why}
	r.proposals.propose(change, markDrained{a})
}

func (r *maintenance) emptied(a *agent) bool {
	if !a.drain.force {
		return len(a.tasks) == 0
	}
	for _, t := range a.tasks { // order: irrelevant because one is enough
		if !t.status.State.Terminal() || t.framework.session != nil {
			return false
		}
	}
	return true
}

// agentRemoved follows the registry: the agent is forgotten.
func (r *agents) agentRemoved(id api.AgentID, why string) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	delete(r.agentByID, id)
	delete(r.offers.freed, id)
	r.inventory.leaveHost(a, a.info.Hostname)
	r.deadlines.clear(a.window.turn)
	r.info("agent removed", field("agent", id), field("why", why))
	r.endAgent(a, why)
	r.tasks.stubs -= len(a.stubs)
}
