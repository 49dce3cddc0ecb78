package engine

import "github.com/tenderhq/tender/api"

// Use says what is used on an agent beyond what was asked for.
func (e *ledger) Use(id api.AgentID, beyond api.Resources) {
	a := e.agentOf(id)
	if a == nil || beyond.IsZero() && a.beyond.zero() {
		return
	}
	before := a.counted.clone()
	a.beyond = e.kinds.count(a.beyond, beyond, nil)
	e.setFree(a, a.free, nil)
	if !before.holds(a.counted) {
		e.loosen()
		e.dirty.agent(a)
	}
}

// unused is what is free less what is used beyond the requests, unreserved first. What is
// revocable has been counted without it.
func (e *books) unused(a *agent) api.Resources {
	open := a.free
	for kind, excess := range a.beyond {
		for _, item := range a.free.Items() {
			if excess <= 0 {
				break
			}
			if item.Name != e.kinds.names[kind] || item.Scalar == 0 || item.Volume != "" || item.Revocable {
				continue
			}
			item.Scalar = min(item.Scalar, api.Milli(excess))
			excess -= int64(item.Scalar)
			open = open.Without(api.NewResources(item))
		}
	}
	return open
}
