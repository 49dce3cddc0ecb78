package books

// dirty holds what has changed since the last Allocate, so that only that is looked at: agents that have more to give,
// members that may take more, and pairs of both.
//
// Why this is enough: an agent that was looked at and still has something left was refused by every member in the order
// at that time. A refusal can become an offer only in these cases: the agent has more to give or is described anew
// (SetAgent, Return, Use: the agent is marked); the member may take more (Revive, demand, activation, constraint, a
// sized offer that came back: the member); its filter ends, its capped offer is answered, or the gap of an agent grows
// (the pair); a role falls below its limit (Uncut); a guarantee is met (Loosen).
type dirty struct {
	Agents  []int32
	Members []*Member
	Pending []int32 // agents of pairs
	Wants   bool    // some of the members state a demand
	Touched touched
}

// Clean reports whether nothing has changed.
func (d *dirty) Clean() bool {
	return len(d.Agents) == 0 && len(d.Members) == 0 && len(d.Pending) == 0
}

// Agent marks an agent for all members.
func (d *dirty) Agent(a *Agent) {
	if !a.Dirty && a.Offerable && !a.Open.IsZero() {
		a.Dirty = true
		d.Agents = append(d.Agents, a.Number)
	}
}

// Member marks a member for all agents.
func (d *dirty) Member(m *Member) {
	if m.Listed && !m.Fresh {
		m.Fresh = true
		d.Members = append(d.Members, m)
		d.Wants = d.Wants || m.Demand != nil
	}
}

// Pair marks the agent for this member only.
func (d *dirty) Pair(a *Agent, m *Member) {
	if a.Dirty || !m.Listed || !a.Offerable || a.Open.IsZero() {
		return
	}
	a.Pending = append(a.Pending, m.Number)
	if !a.Waiting {
		a.Waiting = true
		d.Pending = append(d.Pending, a.Number)
	}
}

// Capped marks the pair if the framework has a MaxOffer: now that the member has answered, it may be offered more of
// the agent.
func (d *dirty) Capped(a *Agent, m *Member) {
	if m.Framework.Most != nil {
		d.Pair(a, m)
	}
}

// Everything marks all agents for all members.
func (d *dirty) Everything(agents []*Agent) {
	for _, a := range agents {
		if a != nil {
			d.Agent(a)
		}
	}
}

// Uncut marks the members in the role and below that got less than they wanted because of a limit, as there is room
// now.
func (b *Books) Uncut(r *Role) {
	for ; r != nil; r = r.Parent {
		if r.Cut {
			r.Cut = false
			b.Subtree(r, func(m *Member) { b.Dirty.Member(m) })
		}
	}
}

// Loosen marks all agents and members, if a member got less because of a guarantee.
func (b *Books) Loosen() {
	if b.Promises.Blocked {
		b.Promises.Blocked = false
		b.Dirty.Everything(b.Agents)
	}
}

// touched holds the members and roles whose share has changed since the orders were last sorted. Each is moved once,
// however often its share has changed.
type touched struct {
	Members []*Member
	Roles   []*Role
	All     bool // the cluster's total has changed, and with it every share
}

// TouchMember notes that the member's share has changed, and with it the shares of its role and the roles above.
func (b *Books) TouchMember(m *Member) {
	if !m.Touched {
		m.Touched = true
		b.Dirty.Touched.Members = append(b.Dirty.Touched.Members, m)
	}
	for r := m.Role; r != nil; r = r.Parent {
		b.TouchRole(r)
	}
}

// TouchRole notes that the share of the role has changed.
func (b *Books) TouchRole(r *Role) {
	if r != nil && !r.Touched {
		r.Touched = true
		b.Dirty.Touched.Roles = append(b.Dirty.Touched.Roles, r)
	}
}
