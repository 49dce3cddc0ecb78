package books

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// keeps holds the demands for which preemption is under way, in the order in which it began.
type keeps struct {
	list  []*Keep
	Stale bool // something has changed that may make preemption useful, or no longer useful
	wake  Instant
	Wakes bool
	// spared holds victims for which nobody waits any more.
	spared []*Task
}

// Keep holds back the resources of one task on an agent, while victims end and until the resources were offered once to
// the demand for which the victims were asked back (R27).
type Keep struct {
	Agent   *Agent
	Of      *Member
	Shape   *Shape
	Victims []*Task
}

// Useful reports whether the demand still wants what is kept for it.
func (k *Keep) Useful() bool {
	return k.Agent.Offerable && k.Of.Role != nil && k.Of.Listed && k.Of.Demand != nil &&
		slices.Contains(k.Of.Demand.Shapes, k.Shape) && k.Shape.Left() > 0
}

// Awaits reports whether some victim has not ended yet.
func (k *Keep) Awaits() bool {
	return slices.ContainsFunc(k.Victims, func(t *Task) bool { return !t.Gone })
}

func (k *keeps) WakeAt(at Instant) {
	if !k.Wakes || at < k.wake {
		k.wake, k.Wakes = at, true
	}
}

func (k *keeps) Next() (Instant, bool) { return k.wake, k.Wakes }

// Due drops what is kept in vain, and reports whether preemption has to be considered.
func (k *keeps) Due(b *Books) bool {
	if !b.Preempts {
		return false
	}
	if k.Wakes && k.wake <= b.Now {
		k.Stale = true
	}
	if k.Stale {
		for _, one := range slices.Clone(k.list) {
			if !one.Useful() {
				k.GiveUp(b, one)
				b.Dirty.Agent(one.Agent)
			}
		}
	}
	return k.Stale
}

func (k *keeps) Begin(one *Keep) {
	k.list = append(k.list, one)
	one.Agent.Keeps = append(one.Agent.Keeps, one)
	one.Shape.Asked++
	for r := one.Of.Role; r != nil; r = r.Parent {
		r.Asked.Add(one.Shape.Ask)
	}
}

func (k *keeps) End(one *Keep) {
	is := func(other *Keep) bool { return other == one }
	k.list = slices.DeleteFunc(k.list, is)
	one.Agent.Keeps = slices.DeleteFunc(one.Agent.Keeps, is)
	one.Shape.Asked--
	for r := one.Of.Role; r != nil; r = r.Parent {
		r.Asked.Sub(one.Shape.Ask)
	}
}

// GiveUp ends a Keep that is no longer for anybody. Victims that have not ended need not end any more.
func (k *keeps) GiveUp(b *Books, one *Keep) {
	k.End(one)
	b.Spare(one)
}

func (b *Books) Spare(one *Keep) {
	for _, t := range one.Victims {
		if !t.Gone && t.Asked {
			b.Leaving(t, -1)
			b.Keeps.spared = append(b.Keeps.spared, t)
			b.Keeps.Stale = true
		}
	}
}

// Claims returns the tasks that need not end any more, without those that have ended, and forgets them. A task that is
// asked back again at once is still among them.
func (k *keeps) Claims() []allocator.Claim {
	var claims []allocator.Claim
	for _, t := range k.spared {
		if !t.Gone {
			claims = append(claims, t.Claim)
		}
	}
	clear(k.spared)
	k.spared = k.spared[:0]
	return claims
}

// Drop ends everything that is kept on an agent that goes away.
func (k *keeps) Drop(a *Agent) {
	for len(a.Keeps) > 0 {
		k.End(a.Keeps[0])
	}
	k.Stale = true
}

// Unkept returns what is open of the agent and kept for nobody.
func (a *Agent) Unkept() api.Resources {
	open := a.Open
	for _, k := range a.Keeps {
		open = open.Without(plain(open, k.Shape.Spec.Resources))
	}
	return open
}

// IsKeptFor reports whether something of the agent is kept for the member.
func (a *Agent) IsKeptFor(m *Member) bool {
	return slices.ContainsFunc(a.Keeps, func(k *Keep) bool { return k.Of == m })
}

// plain returns what the ask would be carved from, as far as it is there.
func plain(open, ask api.Resources) api.Resources {
	if part, _, fits := open.Carve(ask); fits {
		return part
	}
	return ask
}
