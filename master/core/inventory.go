package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/core/meter"
)

// inventory is what agents have and say of themselves, as the registry knows it, and under which hosts they are found.
type inventory struct {
	*base
	standing *standing
	offers   *offers

	hosts map[string]map[api.AgentID]bool // agents by hostname
}

// newAgent makes the picture of an admitted agent that has not been heard of.
func (r *inventory) newAgent(id api.AgentID) *agent {
	a := &agent{
		id:        id,
		tasks:     make(map[api.TaskRef]*task),
		executors: make(map[api.ExecutorRef]*executor),
		offers:    make(map[api.OfferID]*offer),
	}
	a.state, a.since, a.policyStale = api.AgentDisconnected, r.now, true
	a.meter = meter.New()
	a.clock, a.asked = newDeadline(agentSilent{a}), newDeadline(predecessorSilent{a})
	a.window.turn, a.meterStale = newDeadline(maintenanceTurn{a}), newDeadline(usageOutdated{a})
	r.agentByID[id] = a
	r.describeAgent(a)
	a.marked = r.marks(a)
	return a
}

// describeAgent takes over what the registry says of the agent.
func (r *inventory) describeAgent(a *agent) {
	known, host := r.registry.Agents[a.id], a.info.Hostname
	a.info = known.Agent
	r.moveHost(a, host)
	a.Resize(known.Total())
}

// agentChanged follows a change of what an agent has or says of itself.
func (r *inventory) agentChanged(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	before := a.Total
	r.describeAgent(a)
	if !a.Total.Equal(before) && a.Over {
		r.offers.rescindAll(a.offers, "the agent's resources have changed")
		a.Recheck()
	}
	a.policyStale = true
	r.standing.restate(a)
}

// moveHost notes under which hostname an agent is found.
func (r *inventory) moveHost(a *agent, from string) {
	if from != a.info.Hostname {
		r.leaveHost(a, from)
	}
	if a.info.Hostname == "" {
		return
	}
	if r.hosts[a.info.Hostname] == nil {
		r.hosts[a.info.Hostname] = make(map[api.AgentID]bool)
	}
	r.hosts[a.info.Hostname][a.id] = true
}

// leaveHost forgets that an agent is found under a hostname.
func (r *inventory) leaveHost(a *agent, host string) {
	of := r.hosts[host]
	if delete(of, a.id); len(of) == 0 {
		delete(r.hosts, host)
	}
}

// backAs is the agent that an absent one has become: one of the same host that lives and was admitted when this one had
// left, or that is served at its very address. "" when there is none. Several agents may share a host, so the name alone
// tells nothing.
func (r *inventory) backAs(a *agent) api.AgentID {
	known := r.registry.Agents[a.id]
	if a.link != nil || known.Marks.Has(api.MarkGone) || known.Marks.Has(api.MarkDrained) {
		return ""
	}
	for _, id := range sortedKeys(r.hosts[a.info.Hostname]) {
		b, other := r.agentByID[id], r.registry.Agents[id]
		if b == nil || b.link == nil || words.CompareNatural(string(id), string(a.id)) <= 0 {
			continue
		}
		left := !a.leftAt.IsZero() && other.Admitted.After(a.leftAt)
		if left || a.info.Address != "" && a.info.Address == b.info.Address {
			return id
		}
	}
	return ""
}

// warnOfOthers logs which absent agents of its host a new agent may have been.
func (r *inventory) warnOfOthers(a *agent) {
	for _, id := range sortedKeys(r.hosts[a.info.Hostname]) {
		if old := r.agentByID[id]; old != nil && old != a && r.backAs(old) == a.id {
			r.warn("a host is back as another agent", field("agent", id), field("now", a.id), field("host", a.info.Hostname))
		}
	}
}
