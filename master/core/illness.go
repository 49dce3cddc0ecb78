package core

import "github.com/tenderhq/tender/master/view"

// health is what an operator should look at, of an agent beside its state.
func (c *Core) health(a *agent) view.Health {
	health := view.Health{IsOver: a.over, BackAs: c.inventory.backAs(a), Refused: a.refused, Unable: a.unable, Overdue: a.phase == phaseOverdue}
	if a.over {
		health.Over = a.used.Firm().Without(a.total)
	}
	if health.Overdue {
		health.NotMarked = c.agents.overdue.held
	}
	return health
}

// versionRefused notes that somebody came with a version that this leader does not take.
func (b *base) versionRefused(who, why string) {
	b.versions.Count++
	b.versions.At, b.versions.Last = b.now, who+": "+why
	b.warn("version refused", field("who", who), field("why", why))
}
