package engine

// touched are members and roles whose share has changed since the orders were last in
// order. They are moved once, however often it changed.
type touched struct {
	members []*member
	roles   []*role
	all     bool // the cluster's total has changed: every share has
}

func (e *Engine) touchMember(m *member) {
	if !m.touched {
		m.touched = true
		e.dirty.touched.members = append(e.dirty.touched.members, m)
	}
	for r := m.role; r != nil; r = r.parent {
		e.touchRole(r)
	}
}

func (e *Engine) touchRole(r *role) {
	if r != nil && !r.touched {
		r.touched = true
		e.dirty.touched.roles = append(e.dirty.touched.roles, r)
	}
}

// settle brings the orders in order.
func (e *Engine) settle() {
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
func (e *Engine) reorder(m *member, o *order) {
	o.refresh(m)
	for r := m.role; r != nil; r = r.parent {
		o.refreshRole(r)
		e.oweRole(r)
	}
	if o != e.all {
		e.touchMember(m)
	}
}
