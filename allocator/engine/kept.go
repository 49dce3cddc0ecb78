package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// keeps are what preemption is under way for, in the order in which it was asked.
type keeps struct {
	list  []*keep
	stale bool // something has changed by which preemption may help, or be of no use any more
	wake  instant
	wakes bool
	// spared: victims that nobody waits for any more.
	spared []*task
}

// keep holds back one task's resources on an agent, while victims end and until they
// were offered once to the demand that asked for them (R27).
type keep struct {
	agent   *agent
	of      *member
	shape   *shape
	victims []*task
}

// useful reports whether the demand still wants what is kept.
func (k *keep) useful() bool {
	return k.agent.offerable && k.of.role != nil && k.of.listed && k.of.demand != nil &&
		slices.Contains(k.of.demand.shapes, k.shape) && k.shape.left() > 0
}

func (k *keeps) wakeAt(at instant) {
	if !k.wakes || at < k.wake {
		k.wake, k.wakes = at, true
	}
}

func (k *keeps) next() (instant, bool) { return k.wake, k.wakes }

// due drops what is kept in vain, and reports whether preemption must be looked at.
func (k *keeps) due(e *books) bool {
	if !e.preempts {
		return false
	}
	if k.wakes && k.wake <= e.now {
		k.stale = true
	}
	if k.stale {
		for _, one := range slices.Clone(k.list) {
			if !one.useful() {
				k.giveUp(e, one)
				e.dirty.agent(one.agent)
			}
		}
	}
	return k.stale
}

func (k *keeps) begin(one *keep) {
	k.list = append(k.list, one)
	one.agent.keeps = append(one.agent.keeps, one)
	one.shape.asked++
	for r := one.of.role; r != nil; r = r.parent {
		r.asked.add(one.shape.ask)
	}
}

func (k *keeps) end(one *keep) {
	is := func(other *keep) bool { return other == one }
	k.list = slices.DeleteFunc(k.list, is)
	one.agent.keeps = slices.DeleteFunc(one.agent.keeps, is)
	one.shape.asked--
	for r := one.of.role; r != nil; r = r.parent {
		r.asked.sub(one.shape.ask)
	}
}

// giveUp ends what is kept in vain, or was met by something else: victims that have not
// ended are asked back no longer.
func (k *keeps) giveUp(e *books, one *keep) {
	k.end(one)
	e.spare(one)
}

func (e *books) spare(one *keep) {
	for _, t := range one.victims {
		if !t.gone && t.asked {
			e.leaving(t, -1)
			e.keeps.spared = append(e.keeps.spared, t)
			e.keeps.stale = true
		}
	}
}

// claims hands the spared out, but for those that have ended. One that is asked back
// again at once is spared first.
func (k *keeps) claims() []allocator.Claim {
	var claims []allocator.Claim
	for _, t := range k.spared {
		if !t.gone {
			claims = append(claims, t.claim)
		}
	}
	clear(k.spared)
	k.spared = k.spared[:0]
	return claims
}

// drop ends what is kept on an agent that goes away.
func (k *keeps) drop(a *agent) {
	for len(a.keeps) > 0 {
		k.end(a.keeps[0])
	}
	k.stale = true
}

// unkept is what is open of the agent and kept for nobody.
func (a *agent) unkept() api.Resources {
	open := a.open
	for _, k := range a.keeps {
		open = open.Without(plain(open, k.shape.spec.Resources))
	}
	return open
}

// isKeptFor reports whether something of the agent is kept for the member.
func (a *agent) isKeptFor(m *member) bool {
	return slices.ContainsFunc(a.keeps, func(k *keep) bool { return k.of == m })
}

// plain is what an ask would be carved from, as much of it as there is.
func plain(open, ask api.Resources) api.Resources {
	if part, _, fits := open.Carve(ask); fits {
		return part
	}
	return ask
}

// serveKeeps offers what was kept once it is there; once all victims have ended without
// enough, it is kept no longer.
func (e *server) serveKeeps(a *agent, o *order) {
	before := len(a.keeps)
	defer func() {
		if len(a.keeps) < before && o != e.line.all {
			e.dirty.agent(a) // what is kept no longer is for all
		}
	}()
	for _, k := range slices.Clone(a.keeps) {
		if !k.useful() || !e.mayRun(k.of, k.shape, a) {
			e.keeps.giveUp(e.books, k)
			continue
		}
		if e.hold && k.of.role.limited {
			continue
		}
		e.serveKeep(k, o)
	}
}

func (e *server) serveKeep(k *keep, o *order) {
	e.keeps.end(k) // so that it does not count against itself
	d := e.available(question{member: k.of, agent: k.agent})
	e.remember(k.of, d)
	part, _, fits := d.offer.Carve(k.shape.spec.Resources)
	switch {
	case fits && e.filtered(k.agent, k.of, part) != nil:
		e.spare(k)
	case d.why == granted && fits:
		k.of.preempts.offered = true
		d.plan, d.offer, d.whole = planned{k.of.number, k.shape, 1}, part, part
		e.propose(k.agent, k.of, d, o)
		e.spare(k)
	case slices.ContainsFunc(k.victims, func(t *task) bool { return !t.gone }):
		e.keeps.begin(k)
	}
}
