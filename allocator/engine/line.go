package engine

import "slices"

// line is who is next: the members that may be offered something, in order, and who has stepped back in it.
type line struct {
	*ranking
	all       *order // of all members that may be offered something
	few       *order // of the members that agents which nobody else wanted are looked at for
	floor     floor
	owed      list // the roles that lack something of their guarantee and have members to give it to
	stepsBack stepsBack
	// round counts the calls of Allocate that had something to do.
	round uint64
}

func newLine(r *ranking) *line { return &line{ranking: r, all: newOrder(r), few: newOrder(r)} }

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

// promisesChanged follows a change of r's guarantee.
func (e *line) promisesChanged(r *role) {
	p := &e.promises
	listed := int(r.promise.number) < len(p.roles) && p.roles[r.promise.number] == r
	switch {
	case r.guarantee != nil && !listed:
		r.promise.number = int32(len(p.roles))
		if hole := slices.Index(p.roles, nil); hole >= 0 {
			r.promise.number = int32(hole)
			p.roles[hole] = r
		} else {
			p.roles = append(p.roles, r)
		}
		p.count++
		if p.count == 1 {
			e.recountSpare()
		}
	case r.guarantee == nil && listed:
		e.unowe(r)
		p.roles[r.promise.number] = nil
		p.count--
	case r.guarantee == nil:
		return
	}
	e.markNear(r)
	e.recountNeed(r)
	e.dirty.everything(e.agents)
}

// oweRole puts the role into the list of those that lack something, or takes it out.
func (e *line) oweRole(r *role) {
	if r.guarantee == nil {
		return
	}
	owed := false
	if r.listed > 0 {
		for kind := range r.guarantee {
			owed = owed || r.unmet(kind) > 0
		}
	}
	if !owed {
		e.unowe(r)
		return
	}
	key := entry{e.owedNext(r), r.served, r.promise.number}
	switch {
	case !r.promise.owed:
		e.owed.insert(key)
	case key != r.promise.key:
		e.owed.move(r.promise.key, key)
	}
	r.promise.owed, r.promise.key = true, key
}

// owedNext is where the role stands among those that lack something of their guarantee.
func (e *line) owedNext(r *role) float64 {
	if e.policy.Next == nil {
		return e.share(r.taken) / r.weight
	}
	return e.nextRole(r)
}

func (e *line) unowe(r *role) {
	if r.promise.owed {
		e.owed.remove(r.promise.key)
		r.promise.owed = false
	}
}

func (e *line) oweAll() {
	for _, r := range e.promises.roles {
		if r != nil {
			e.oweRole(r)
		}
	}
}
