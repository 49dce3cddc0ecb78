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
	Minimum Amounts // least that is worth offering; nil = the engine's default
	Most    Amounts // bounds of one offer (MaxOffer); nil = none
}

// Member is a framework in one of its roles; offers are made to members.
type Member struct {
	Number    int32
	Framework *Framework
	Role      *Role // nil once the member is gone
	presence
	Demand   *Demand
	Gate     *Gate // of the framework's constraint; nil = none
	Taken    Amounts
	Holdings int       // number of things that it holds
	Filters  int       // number of its filters in force
	places   []*places // counts by place, as long as a demand is spread

	patience
	Served uint64 // number of its last offer
	Joined uint64 // the member that was known first has the smaller number
	memberMarks
	Preempts preempts
}

// presence says whether a member may be offered something.
type presence struct {
	Subscribed bool // false: it has left the role, and only keeps what it held
	Suppressed bool
	Listed     bool // it is in the order: it may be offered something
	taker      int  // its position in the takers, from 1; 0 = none
}

// patience says how a member that gave offers back untouched lets others go first; see stepsBack in package engine.
type patience struct {
	SteppedBack bool
	Struck      bool // it gave an offer back untouched and without a filter since the last round
	Strikes     uint8
	BackUntil   uint64 // the round until which it has stepped back
}

// memberMarks say why a member has to be looked at.
type memberMarks struct {
	Fresh   bool   // in Dirty.Members
	Touched bool   // in Touched.Members
	Passed  uint64 // the turn in which it was found to take nothing
}

// MemberOf returns the framework's member in the role; it makes the member if there is none.
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

// Retake adds the member to the takers if it may be offered revocable resources, and removes it otherwise.
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

// Find returns the agent and the member of a claim, if both are known.
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

// SubscribedRoles returns the number of roles in which the framework is subscribed. If there are several, explanations
// name the role.
func (f *Framework) SubscribedRoles() int {
	n := 0
	for _, m := range f.Members {
		if m.Subscribed {
			n++
		}
	}
	return n
}

// WhyNotRevocable says why the member is not offered the revocable resources of an agent that has nothing else left.
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
