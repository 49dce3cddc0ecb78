package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// line is the order of the members that may be offered something. It also knows which of them have stepped back.
type line struct {
	*ranking
	all       *order // all members that may be offered something
	few       *order // the members for which agents are looked at again that nobody else wanted
	floor     floor
	owed      books.List // roles that lack something of their guarantee and have members to give it to
	stepsBack stepsBack
	// round counts the calls of Allocate in which there was something to do.
	round uint64
}

// relist puts the member into the order if it may be offered something, and takes it out otherwise.
func (e *line) relist(m *books.Member) {
	may := m.Subscribed && m.Framework.Spec.Active && m.Framework.Spec.Withheld == "" && !m.Suppressed && (m.Demand == nil || m.Demand.Wants())
	switch {
	case may && !m.Listed:
		e.list(m)
		e.Dirty.Member(m)
	case !may && m.Listed:
		e.unlist(m)
	}
}

func (e *line) list(m *books.Member) {
	m.Listed = true
	e.Retake(m)
	e.floor.enter(e.Books, m)
	e.all.insert(m)
	e.countListed(m.Role, +1)
}

func (e *line) unlist(m *books.Member) {
	if !m.Listed {
		return
	}
	m.Listed = false
	e.Retake(m)
	e.floor.depart(e, m)
	e.all.remove(m)
	e.few.remove(m)
	e.countListed(m.Role, -1)
}

func (e *line) countListed(r *books.Role, n int) {
	for ; r != nil; r = r.Parent {
		r.Listed += n
		if r.Guarantee != nil && !e.Turn.On {
			e.oweRole(r)
		} else if r.Guarantee != nil {
			e.TouchRole(r)
		}
	}
}

// settle sorts the orders again where shares have changed.
func (e *line) settle() {
	t := &e.Dirty.Touched
	for _, m := range t.Members {
		m.Touched = false
		if !t.All && m.Role != nil {
			e.all.refresh(m)
		}
	}
	for _, r := range t.Roles {
		r.Touched = false
		if !t.All {
			e.all.refreshRole(r)
		}
		e.oweRole(r)
	}
	if t.All {
		e.all.refreshAll()
		e.oweAll()
	}
	clear(t.Members)
	clear(t.Roles)
	t.Members, t.Roles, t.All = t.Members[:0], t.Roles[:0], false
}

// reorder moves a member that was just offered something: in the given order at once, in the other one when that is
// needed.
func (e *line) reorder(m *books.Member, o *order) {
	o.refresh(m)
	for r := m.Role; r != nil; r = r.Parent {
		o.refreshRole(r)
		e.oweRole(r)
	}
	if o != e.all {
		e.TouchMember(m)
	}
}

// promisesChanged updates what depends on r's guarantee.
func (e *line) promisesChanged(r *books.Role) {
	p := &e.Promises
	listed := int(r.Promise.Number) < len(p.Roles) && p.Roles[r.Promise.Number] == r
	switch {
	case r.Guarantee != nil && !listed:
		r.Promise.Number = int32(len(p.Roles))
		if hole := slices.Index(p.Roles, nil); hole >= 0 {
			r.Promise.Number = int32(hole)
			p.Roles[hole] = r
		} else {
			p.Roles = append(p.Roles, r)
		}
		p.Count++
		if p.Count == 1 {
			e.RecountSpare()
		}
	case r.Guarantee == nil && listed:
		e.unowe(r)
		p.Roles[r.Promise.Number] = nil
		p.Count--
	case r.Guarantee == nil:
		return
	}
	e.MarkNear(r)
	e.RecountNeed(r)
	e.Dirty.Everything(e.Agents)
}

// oweRole puts the role into the list of roles that lack something of their guarantee, or takes it out.
func (e *line) oweRole(r *books.Role) {
	if r.Guarantee == nil {
		return
	}
	owed := false
	if r.Listed > 0 {
		for kind := range r.Guarantee {
			owed = owed || r.Unmet(kind) > 0
		}
	}
	if !owed {
		e.unowe(r)
		return
	}
	key := books.Entry{Share: e.owedNext(r), Served: r.Served, ID: r.Promise.Number}
	switch {
	case !r.Promise.Owed:
		e.owed.Insert(key)
	case key != r.Promise.Key:
		e.owed.Move(r.Promise.Key, key)
	}
	r.Promise.Owed, r.Promise.Key = true, key
}

// owedNext returns where the role stands among the roles that lack something of their guarantee.
func (e *line) owedNext(r *books.Role) float64 {
	if e.policy.Next == nil {
		return e.shareOf(r.Taken) / r.Weight
	}
	return e.nextRole(r)
}

func (e *line) unowe(r *books.Role) {
	if r.Promise.Owed {
		e.owed.Remove(r.Promise.Key)
		r.Promise.Owed = false
	}
}

func (e *line) oweAll() {
	for _, r := range e.Promises.Roles {
		if r != nil {
			e.oweRole(r)
		}
	}
}
