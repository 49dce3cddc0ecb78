package books

// touched are members and roles whose share has changed since the orders were last in
// order. They are moved once, however often it changed.
type touched struct {
	members []*member
	roles   []*role
	all     bool // the cluster's total has changed: every share has
}

func (b *Books) touchMember(m *member) {
	if !m.touched {
		m.touched = true
		b.dirty.touched.members = append(b.dirty.touched.members, m)
	}
	for r := m.role; r != nil; r = r.parent {
		b.touchRole(r)
	}
}

func (b *Books) touchRole(r *role) {
	if r != nil && !r.touched {
		r.touched = true
		b.dirty.touched.roles = append(b.dirty.touched.roles, r)
	}
}

// settle brings the orders in order.
func (b *Books) settle() {
	t := &b.dirty.touched
	for _, m := range t.members {
		m.touched = false
		if !t.all && m.role != nil {
			b.all.refresh(m)
		}
	}
	for _, r := range t.roles {
		r.touched = false
		if !t.all {
			b.all.refreshRole(r)
		}
		b.oweRole(r)
	}
	if t.all {
		b.all.refreshAll()
		b.oweAll()
	}
	clear(t.members)
	clear(t.roles)
	t.members, t.roles, t.all = t.members[:0], t.roles[:0], false
}

// reorder moves a member that was just offered something, in the order at hand now,
// in the other one when it is needed.
func (b *Books) reorder(m *member, o *order) {
	o.refresh(m)
	for r := m.role; r != nil; r = r.parent {
		o.refreshRole(r)
		b.oweRole(r)
	}
	if o != b.all {
		b.touchMember(m)
	}
}
