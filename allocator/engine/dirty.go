package engine

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
	agents  []int32
	members []*member
	pending []int32 // agents with pairs
	wants   bool    // somebody with a demand is among the members
	touched touched
}

func (d *dirty) clean() bool {
	return len(d.agents) == 0 && len(d.members) == 0 && len(d.pending) == 0
}

// agent marks an agent for all members.
func (d *dirty) agent(a *agent) {
	if !a.dirty && a.offerable && !a.open.IsZero() {
		a.dirty = true
		d.agents = append(d.agents, a.number)
	}
}

// member marks a member for all agents.
func (d *dirty) member(m *member) {
	if m.listed && !m.fresh {
		m.fresh = true
		d.members = append(d.members, m)
		d.wants = d.wants || m.demand != nil
	}
}

// pair marks the agent for the member.
func (d *dirty) pair(a *agent, m *member) {
	if a.dirty || !m.listed || !a.offerable || a.open.IsZero() {
		return
	}
	a.pending = append(a.pending, m.number)
	if !a.waiting {
		a.waiting = true
		d.pending = append(d.pending, a.number)
	}
}

// capped marks the pair if the member's offers are capped: it may see more of the
// agent now that it has answered.
func (d *dirty) capped(a *agent, m *member) {
	if m.framework.most != nil {
		d.pair(a, m)
	}
}

func (d *dirty) everything(agents []*agent) {
	for _, a := range agents {
		if a != nil {
			d.agent(a)
		}
	}
}

// uncut marks the members of roles on the path that were cut short by a limit: there
// is room now.
func (e *books) uncut(r *role) {
	for ; r != nil; r = r.parent {
		if r.cut {
			r.cut = false
			e.subtree(r, func(m *member) { e.dirty.member(m) })
		}
	}
}

// loosen marks everything if somebody was cut short for the sake of a guarantee.
func (e *books) loosen() {
	if e.promises.blocked {
		e.promises.blocked = false
		e.dirty.everything(e.agents)
	}
}
