package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/view"
)

// health is what an operator should look at, of an agent beside its state.
func (c *Core) health(a *agent) view.Health {
	health := view.Health{IsOver: a.over, BackAs: c.backAs(a), Refused: a.refused, Unable: a.unable, Overdue: a.phase == phaseOverdue}
	if a.over {
		health.Over = a.used.Firm().Without(a.total)
	}
	if health.Overdue {
		health.NotMarked = c.overdue.held
	}
	return health
}

// moveHost notes under which hostname an agent is found.
func (c *Core) moveHost(a *agent, from string) {
	if from != a.info.Hostname {
		c.leaveHost(a, from)
	}
	if a.info.Hostname == "" {
		return
	}
	if c.hosts[a.info.Hostname] == nil {
		c.hosts[a.info.Hostname] = make(map[api.AgentID]bool)
	}
	c.hosts[a.info.Hostname][a.id] = true
}

// leaveHost forgets that an agent is found under a hostname.
func (c *Core) leaveHost(a *agent, host string) {
	of := c.hosts[host]
	if delete(of, a.id); len(of) == 0 {
		delete(c.hosts, host)
	}
}

// backAs is the agent that an absent one has become: one of the same host that lives and was admitted when this one had
// left, or that is served at its very address. "" when there is none. Several agents may share a host, so the name alone
// tells nothing.
func (c *Core) backAs(a *agent) api.AgentID {
	known := c.registry.Agents[a.id]
	if a.link != nil || known.Marks.Has(api.MarkGone) || known.Marks.Has(api.MarkDrained) {
		return ""
	}
	for _, id := range sortedKeys(c.hosts[a.info.Hostname]) {
		b, other := c.agents[id], c.registry.Agents[id]
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

// warnOfOthers tells which absent agents a new one of their host may have been.
func (c *Core) warnOfOthers(a *agent) {
	for _, id := range sortedKeys(c.hosts[a.info.Hostname]) {
		if old := c.agents[id]; old != nil && old != a && c.backAs(old) == a.id {
			c.warn("a host is back as another agent", field("agent", id), field("now", a.id), field("host", a.info.Hostname))
		}
	}
}

// versionRefused notes that somebody came with a version that this leader does not take.
func (c *Core) versionRefused(who, why string) {
	c.versions.Count++
	c.versions.At, c.versions.Last = c.now, who+": "+why
	c.warn("version refused", field("who", who), field("why", why))
}
