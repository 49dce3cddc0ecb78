package core

import (
	"maps"
	"slices"
)

// Clone makes a core that goes on alike: told the same events it has the same effects. The two share nothing that
// changes.
func (c *Core) Clone() *Core {
	clone := *c
	clone.search.queue, clone.search.learned = slices.Clone(c.search.queue), slices.Clone(c.search.learned)
	clone.tasks = c.tasks.clone()
	clone.operations.awaited = maps.Clone(c.operations.awaited)
	clone.demands = c.demands.clone()
	clone.offers.open, clone.offers.fresh = maps.Clone(c.offers.open), slices.Clone(c.offers.fresh)
	clone.accepts.sent, clone.accepts.order = maps.Clone(c.accepts.sent), slices.Clone(c.accepts.order)
	clone.updates.queue = slices.Clone(c.updates.queue)
	clone.calls.todo, clone.calls.handed = slices.Clone(c.calls.todo), slices.Clone(c.calls.handed)
	clone.effects = nil
	return &clone
}
