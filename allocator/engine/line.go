package engine

// line is who is next: the members that may be offered something, in order, and who has stepped back in it.
type line struct {
	*books
	all       *order // of all members that may be offered something
	few       *order // of the members that agents which nobody else wanted are looked at for
	floor     floor
	stepsBack stepsBack
	// round counts the calls of Allocate that had something to do.
	round uint64
}

func newLine(b *books) *line { return &line{books: b, all: newOrder(b, 0), few: newOrder(b, 1)} }

// touched are members and roles whose share has changed since the orders were last in
// order. They are moved once, however often it changed.
type touched struct {
	members []*member
	roles   []*role
	all     bool // the cluster's total has changed: every share has
}

func (e *books) touchMember(m *member) {
	if !m.touched {
		m.touched = true
		e.dirty.touched.members = append(e.dirty.touched.members, m)
	}
	for r := m.role; r != nil; r = r.parent {
		e.touchRole(r)
	}
}

func (e *books) touchRole(r *role) {
	if r != nil && !r.touched {
		r.touched = true
		e.dirty.touched.roles = append(e.dirty.touched.roles, r)
	}
}

// settle brings the orders in order.
func (e *line) settle() {
	t := &e.dirty.touched
	for _, m := range t.members {
		m.touched = false
		if !t.all && m.role != nil {
			e.all.refresh(m)
		}
	}
	for _, r := range t.roles {
		r.touched = false
		if !t.all {
			e.all.refreshRole(r)
		}
		e.oweRole(r)
	}
	if t.all {
		e.all.refreshAll()
		e.oweAll()
	}
	clear(t.members)
	clear(t.roles)
	t.members, t.roles, t.all = t.members[:0], t.roles[:0], false
}

// reorder moves a member that was just offered something, in the order at hand now,
// in the other one when it is needed.
func (e *line) reorder(m *member, o *order) {
	o.refresh(m)
	for r := m.role; r != nil; r = r.parent {
		o.refreshRole(r)
		e.oweRole(r)
	}
	if o != e.all {
		e.touchMember(m)
	}
}
