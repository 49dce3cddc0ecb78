package books

// dirty is what has changed since the last Allocate, so that only it is looked at:
// agents that have more to give, members that may take more, and pairs of both.
//
// Why this is enough: an agent that was looked at and left with something was refused
// by every member in the order then. A refusal can only turn into a yes when the agent
// has more to give or is itself another (SetAgent, Return, Use: agent), when the member
// may take more (Revive, demand, activation, constraint, an offer of sized demand that
// came back: member), when its filter ends, its capped offer is answered or the gap of an
// agent grows (pair), when a role falls below its limit (uncut), or when a guarantee is met (loosen).
type dirty struct {
	Agents  []int32
	Members []*Member
	Pending []int32 // agents with pairs
	Wants   bool    // somebody with a demand is among the members
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

// Pair marks the agent for this member alone.
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

// Capped marks the pair if the member's offers are capped: it may see more of the
// agent now that it has answered.
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

// Uncut marks the members in the role and below it that a limit had given less than they wanted: now there is room.
func (b *Books) Uncut(r *Role) {
	for ; r != nil; r = r.Parent {
		if r.Cut {
			r.Cut = false
			b.Subtree(r, func(m *Member) { b.Dirty.Member(m) })
		}
	}
}

// Loosen marks all agents and members, if somebody was given less because of a guarantee.
func (b *Books) Loosen() {
	if b.Promises.Blocked {
		b.Promises.Blocked = false
		b.Dirty.Everything(b.Agents)
	}
}

// touched are members and roles whose share has changed since the orders were last in
// order. They are moved once, however often it changed.
type touched struct {
	Members []*Member
	Roles   []*Role
	All     bool // the cluster's total has changed: every share has
}

// TouchMember notes that the share of the member has changed, and those of the roles that it is in.
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
