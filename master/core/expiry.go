package core

import (
	"time"

	"github.com/tenderhq/tender/master/registry"
)

// What the registry remembers of proposers, removed frameworks and agents marked gone is forgotten after a
// fortnight without a sign of them. It is looked at every hour, and rarely worth a command.
const (
	expiryAfter = 14 * 24 * time.Hour
	expiryPause = time.Hour
)

func (c *Core) beginExpiry() {
	c.expiry.due = c.expire
	c.deadlines.set(&c.expiry, c.now.Add(expiryPause))
}

func (c *Core) expire() {
	c.deadlines.set(&c.expiry, c.now.Add(expiryPause))
	before := c.now.Add(-expiryAfter)
	if c.remembersBefore(before) {
		c.info("the past is forgotten", Field{"before", before.UTC().Format(time.RFC3339)})
		c.propose(registry.Expire{Before: before}, func(registry.Result) {})
	}
}

// remembersBefore says whether there is anything to forget.
func (c *Core) remembersBefore(before time.Time) bool {
	for _, client := range c.registry.Clients { // order: irrelevant because one is enough
		if client.Seen.Before(before) {
			return true
		}
	}
	for _, agent := range c.registry.Agents { // order: irrelevant because one is enough
		if !agent.Gone.IsZero() && agent.Gone.Before(before) {
			return true
		}
	}
	for _, framework := range c.registry.Frameworks { // order: irrelevant because one is enough
		if !framework.Removed.IsZero() && framework.Removed.Before(before) {
			return true
		}
	}
	return false
}

// goneForgotten follows the registry, which has forgotten agents that were marked gone.
func (c *Core) goneForgotten() {
	if len(c.agents) <= len(c.registry.Agents) {
		return
	}
	for _, id := range sortedKeys(c.agents) {
		if _, admitted := c.registry.Agents[id]; !admitted {
			c.agentRemoved(id, "forgotten: it was marked gone long ago")
		}
	}
}
