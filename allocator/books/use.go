package books

import "github.com/tenderhq/tender/api"

// use is what an agent really uses, for which its free resources must make room:
// occupied is the larger of what tasks asked for and what is used.
type use struct {
	used  amounts // scalars only
	asked amounts // by tasks and executors, not by open offers
}

// Use says what an agent really uses.
func (b *Books) Use(id api.AgentID, used api.Resources) {
	a := b.agentOf(id)
	if a == nil || used.IsZero() && a.use == nil {
		return
	}
	if a.use == nil {
		a.use = &use{}
	}
	before := a.counted.clone()
	a.use.used = b.kinds.count(a.use.used, used, nil)
	b.recountAsked(a)
	b.setFree(a, a.free, nil)
	if !before.holds(a.counted) {
		b.loosen()
		b.dirty.agent(b, a)
	}
}

// recountAsked adds up what is held and not offered.
func (b *Books) recountAsked(a *agent) {
	if a.use == nil {
		return
	}
	a.use.asked = a.use.asked[:0]
	for i := range a.held {
		if !a.held[i].offer {
			b.turn.asked = b.kinds.count(b.turn.asked, a.held[i].resources, nil)
			a.use.asked.add(b.turn.asked)
		}
	}
}

// unused is what is free less what is used beyond the requests, unreserved first.
func (b *Books) unused(a *agent) api.Resources {
	b.recountAsked(a)
	open := a.free
	for kind, used := range a.use.used {
		excess := used - a.use.asked.at(kind)
		for _, item := range a.free.Items() {
			if excess <= 0 {
				break
			}
			if item.Name != b.kinds.names[kind] || item.Scalar == 0 || item.Volume != "" || item.Revocable {
				continue
			}
			item.Scalar = min(item.Scalar, api.Milli(excess))
			excess -= int64(item.Scalar)
			open = open.Without(api.NewResources(item))
		}
	}
	return open
}
