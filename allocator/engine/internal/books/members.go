package books

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Framework is what the engine knows of a framework.
type Framework struct {
	Spec    allocator.Framework
	Members []*Member // by role
	Taken   Amounts
	Minimum Amounts // least worth offering; nil = the engine's default
	Most    Amounts // bounds of one offer; nil = none
}

// Member is a framework in one of its roles: who is offered something.
type Member struct {
	Number    int32
	Framework *Framework
	Role      *Role // nil once it is gone
	presence
	Demand   *Demand
	Gate     *Gate // the framework's constraint; nil = none
	Taken    Amounts
	Holdings int       // things that it holds
	Filters  int       // that are in force
	places   []*places // as long as a demand is spread over them

	patience
	Served uint64 // number of its last offer
	Joined uint64 // the member that was known first has the smaller number
	memberMarks
	Preempts preempts
}

// presence is whether a member may be offered something.
type presence struct {
	Subscribed bool // otherwise it only keeps what it held when it left the role
	Suppressed bool
	Listed     bool // in the order: it may be offered something
	taker      int  // its place in the takers, from 1; 0 = none
}

// patience is how a member that gave offers back untouched lets others go first, see stepsBack in the engine.
type patience struct {
	SteppedBack bool
	Struck      bool // it gave an offer back untouched and without a filter since the last round
	Strikes     uint8
	BackUntil   uint64 // round
}

// memberMarks say why a member is looked at.
type memberMarks struct {
	Fresh   bool   // in Dirty.Members
	Touched bool   // in Touched.Members
	Passed  uint64 // the turn in which it turned out to take nothing
}

// MemberOf finds or makes the framework's member in the role.
func (b *Books) MemberOf(f *Framework, name api.Role) *Member {
	at, found := slices.BinarySearchFunc(f.Members, name, func(m *Member, name api.Role) int { return cmp.Compare(m.Role.Name, name) })
	if found {
		return f.Members[at]
	}
	b.joined++
	m := &Member{Framework: f, Role: b.RoleOf(name), Joined: b.joined}
	if last := len(b.MemberHoles) - 1; last >= 0 {
		m.Number = b.MemberHoles[last]
		b.MemberHoles = b.MemberHoles[:last]
		b.Members[m.Number] = m
	} else {
		m.Number = int32(len(b.Members))
		b.Members = append(b.Members, m)
		b.generations = append(b.generations, 0)
	}
	m.Role.Members = append(m.Role.Members, m)
	f.Members = slices.Insert(f.Members, at, m)
	return m
}

// Retake puts the member among the takers if it may be offered revocable resources, else
// out of them.
func (s *membership) Retake(m *Member) {
	takes := m.Listed && m.Framework.Spec.Revocable
	switch {
	case takes && m.taker == 0:
		s.Takers = append(s.Takers, m)
		m.taker = len(s.Takers)
	case !takes && m.taker > 0:
		last := s.Takers[len(s.Takers)-1]
		s.Takers[m.taker-1], last.taker = last, m.taker
		s.Takers, m.taker = s.Takers[:len(s.Takers)-1], 0
	}
}

func (b *Books) InRoles(id api.FrameworkID, roles []api.Role, do func(*Member)) {
	f := b.Frameworks[id]
	if f == nil {
		return
	}
	for _, m := range f.Members {
		if len(roles) == 0 || slices.Contains(roles, m.Role.Name) {
			do(m)
		}
	}
}

// Find returns agent and member of a claim, if both are known.
func (b *Books) Find(claim allocator.Claim) (*Agent, *Member) {
	a, f := b.AgentOf(claim.Agent), b.Frameworks[claim.Framework]
	if a == nil || f == nil {
		return nil, nil
	}
	for _, m := range f.Members {
		if m.Role.Name == claim.Role {
			return a, m
		}
	}
	return a, nil
}

// SubscribedRoles counts them: what is said of one of several names it.
func (f *Framework) SubscribedRoles() int {
	n := 0
	for _, m := range f.Members {
		if m.Subscribed {
			n++
		}
	}
	return n
}

// WhyNotRevocable says why the member is not offered revocable resources of an agent of
// which nothing else is left.
func (m *Member) WhyNotRevocable(a *Agent) string {
	free := a.Open.Revocable()
	switch {
	case m.Framework.Spec.Revocable && a.Spec.Total.Revocable().IsZero():
		return "; they leave nothing unused that could be offered as revocable"
	case !m.Framework.Spec.Revocable && !free.IsZero():
		return fmt.Sprintf("; %s is free for frameworks that take revocable resources, which %s does not", free, m.Framework.Spec.ID)
	}
	return ""
}
