package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// drain is how far the leader has come with draining an agent.
type drain struct {
	force    bool // without the acknowledgements of frameworks that are away (R31)
	told     bool // the agent, in this session
	proposed bool // that it is marked drained
}

// agentMarked follows the registry: offers go, the agent is told.
func (c *Core) agentMarked(id api.AgentID) {
	a := c.agents[id]
	if a == nil {
		return
	}
	marks := c.marks(a)
	a.marked = marks
	c.info("agent marked", field("agent", id), Field{"marks", marksText(marks)}, field("why", c.registry.Agents[id].Why))
	if marks.Has(api.MarkGone) {
		c.buryAgent(a, "marked gone: "+c.registry.Agents[id].Why)
		c.goneForgotten()
		return
	}
	c.planMaintenance(a)
	if marks != 0 {
		c.rescindAll(a.offers, "the agent is marked "+marksText(marks))
	}
	if !marks.Has(api.MarkDraining) {
		a.drain.force, a.drain.proposed = false, false
	}
	if !marks.Has(api.MarkDrained) {
		c.tellDrain(a)
	}
	c.restate(a)
	c.checkDrained(a)
}

// tellDrain tells the agent to kill its tasks and refuse new ones, or to stop that.
func (c *Core) tellDrain(a *agent) {
	if !a.reported() {
		return // told when it is back
	}
	on := c.marks(a).Has(api.MarkDraining)
	if on || a.drain.told {
		a.drain.told = on
		c.tellAgent(a, protocol.Drain{On: on, Grace: c.registry.Agents[a.id].Grace})
	}
}

// resendDrain tells an agent that is back; it may have missed either word.
func (c *Core) resendDrain(a *agent) {
	a.drain.told = c.marks(a).Has(api.MarkDraining)
	c.tellAgent(a, protocol.Drain{On: a.drain.told, Grace: c.registry.Agents[a.id].Grace})
}

// checkDrained marks a draining agent drained once it has reported and nothing of it
// runs or waits for an acknowledgement (R31).
func (c *Core) checkDrained(a *agent) {
	marks := c.marks(a)
	if !marks.Has(api.MarkDraining) || marks.Has(api.MarkDrained) || !a.reported() || a.drain.proposed || !c.emptied(a) {
		return
	}
	a.drain.proposed = true
	known := c.registry.Agents[a.id]
	change := registry.MarkAgent{ID: a.id, Set: api.MarkDrained, Grace: known.Grace, Why: known.Why}
	c.propose(change, markDrained{a})
}

func (c *Core) emptied(a *agent) bool {
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
func (c *Core) agentRemoved(id api.AgentID, why string) {
	a := c.agents[id]
	if a == nil {
		return
	}
	delete(c.agents, id)
	delete(c.freed, id)
	c.leaveHost(a, a.info.Hostname)
	c.deadlines.clear(a.window.turn)
	c.info("agent removed", field("agent", id), field("why", why))
	c.buryAgent(a, why)
	c.stubs -= len(a.stubs)
}
