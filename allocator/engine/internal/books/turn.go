package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// turn is the state while one agent is looked at, and memory that is used again.
type turn struct {
	On        bool
	Resumed   *Resumed          // set if the present agent was put by before
	Began     api.Resources     // what the agent had open when its turn began
	Proposals []allocator.Claim // proposals of this round
	Members   []int32           // the members to whom they are made
	First     int               // index of the present agent's first proposal
	scratch
}

// scratch is memory for sums that are needed only for a moment.
type scratch struct{ own, change, Offer, Rest, Relief, Asked, Floor, Sum Amounts }

// Resumed is the state of an agent's turn that was interrupted because the agent was put by.
type Resumed struct {
	Began     api.Resources
	Proposals map[int32]int // by number of the member
}

// UsableBy returns the part to which the member's role, and what it takes, give it access.
func UsableBy(m *Member, open api.Resources) api.Resources {
	role, revocable := m.Role.Name, m.Framework.Spec.Revocable
	return open.Filter(func(l api.Label) bool {
		return (l.Reserved == "" || role.Within(l.Reserved)) && (revocable || !l.Revocable)
	})
}

// Proposed returns what this turn has given the member so far.
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
