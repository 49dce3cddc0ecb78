package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// turn is the state of looking at one agent, and memory that is used again.
type turn struct {
	On        bool
	Resumed   *Resumed          // the agent at hand was put by before
	Began     api.Resources     // what the agent had open when its turn began
	Proposals []allocator.Claim // of this round
	Members   []int32           // to whom
	First     int               // where the agent's own begin
	scratch
}

// scratch is memory for sums that are looked at and forgotten.
type scratch struct{ own, change, Offer, Rest, Relief, Asked, Floor, Sum Amounts }

// Resumed is the turn of an agent that was put by in the middle of it.
type Resumed struct {
	Began     api.Resources
	Proposals map[int32]int // by number of member
}

// UsableBy is the part that the member's role, and what it takes, give it access to.
func UsableBy(m *Member, open api.Resources) api.Resources {
	role, revocable := m.Role.Name, m.Framework.Spec.Revocable
	return open.Filter(func(l api.Label) bool {
		return (l.Reserved == "" || role.Within(l.Reserved)) && (revocable || !l.Revocable)
	})
}

// Proposed is what this turn has given the member already.
func (t *turn) Proposed(m *Member) api.Resources {
	if !t.On {
		return api.Resources{}
	}
	if t.Resumed != nil {
		if i, some := t.Resumed.Proposals[m.Number]; some {
			return t.Proposals[i].Resources
		}
		return api.Resources{}
	}
	for i := t.First; i < len(t.Members); i++ {
		if t.Members[i] == m.Number {
			return t.Proposals[i].Resources
		}
	}
	return api.Resources{}
}
