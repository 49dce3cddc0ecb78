package engine

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// promises are the guarantees of roles: what is held back for them, and whom they let
// go first. A guarantee is met by what the role holds or has reserved; until then as
// much of the cluster's spare resources as is missing is offered to nobody else.
// Guarantees of roles below count towards those above.
type promises struct {
	roles   []*role // with a guarantee, by number; nil = free number
	owed    list    // those that lack something and have members to give it to
	need    Amounts // what all roles together lack
	spare   Amounts // unreserved and unheld on agents that are offered
	blocked bool    // somebody got less because of need since all were last looked at
	met     bool    // somebody was offered something that counts for one in this round
	count   int     // of roles
}

// promise is a role's part of it.
type promise struct {
	number int32
	near   bool    // a guarantee here or above: what is taken here changes need
	need   Amounts // what this subtree lacks
	below  Amounts // what the roles below lack, each for itself
	owed   bool
	key    entry
}

// promisesChanged follows a change of r's guarantee.
func (e *books) promisesChanged(r *role) {
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

func (e *books) markNear(r *role) {
	r.promise.near = r.guarantee != nil || r.parent != nil && r.parent.promise.near
	for _, child := range r.children {
		e.markNear(child)
	}
}

// recountSpare counts what is spare when the first guarantee is given.
func (e *books) recountSpare() {
	e.promises.spare = e.promises.spare[:0]
	for _, a := range e.agents {
		if a != nil {
			a.spare = a.spare[:0]
			e.countSpare(a)
		}
	}
}

// countSpare replaces what the agent adds to the cluster's spare resources.
func (e *books) countSpare(a *agent) {
	if e.promises.count == 0 {
		return
	}
	e.promises.spare.sub(a.spare)
	a.spare = a.spare[:0]
	if a.offerable {
		a.spare = e.kinds.count(a.spare, a.open, unreserved)
	}
	e.promises.spare.add(a.spare)
}

// recountNeed follows a change of what r's subtree holds, up to the root.
func (e *books) recountNeed(r *role) {
	change := e.turn.change[:0]
	for ; r != nil; r = r.parent {
		change = change[:0]
		for kind := range e.kinds.names {
			need := max(r.unmet(kind), r.promise.below.At(kind))
			if delta := need - r.promise.need.At(kind); delta != 0 {
				change.addAt(kind, delta)
			}
		}
		r.promise.need.add(change)
		if r.parent != nil {
			r.parent.promise.below.add(change)
		} else {
			e.promises.need.add(change)
		}
	}
	e.turn.change = change
}

// unmet is what the role itself lacks of a kind.
func (r *role) unmet(kind int) int64 { return max(0, r.guarantee.At(kind)-r.taken.At(kind)) }

// isGuaranteed reports whether the role, or one above, is guaranteed some of the kind.
func (r *role) isGuaranteed(kind int) bool {
	for ; r != nil; r = r.parent {
		if r.guarantee.At(kind) > 0 {
			return true
		}
	}
	return false
}

// lackingGuarantee is the role's own guarantee or the nearest above that lacks something.
func (r *role) lackingGuarantee() *role {
	for ; r != nil; r = r.parent {
		for kind := range r.guarantee {
			if r.unmet(kind) > 0 {
				return r
			}
		}
	}
	return nil
}

// owes names the role for whose guarantee the member goes before all others; "" when it does not.
func (d *decision) owes(m *member) api.Role {
	if d.owed {
		if r := m.role.lackingGuarantee(); r != nil {
			return r.name
		}
	}
	return ""
}

// meetsLack reports whether the offer holds something that the member's roles are guaranteed
// and lack, by the relief that was found for it just now.
func (e *decider) meetsLack(offer api.Resources) bool {
	for _, item := range offer.Items() {
		if unreserved(item.Label) && e.turn.relief.At(e.kinds.number(item.Name)) > 0 {
			return true
		}
	}
	return false
}

// relief is by how much the cluster's need would fall if the role's members were given
// all they could take: that much of what is spare is theirs.
func (e *books) relief(r *role, into Amounts) Amounts {
	into = into[:0]
	for kind := range e.kinds.names {
		fall := r.promise.need.At(kind) - r.promise.below.At(kind)
		for above := r.parent; above != nil; above = above.parent {
			fall = above.promise.need.At(kind) - max(0, above.promise.below.At(kind)-fall)
		}
		if fall > 0 {
			into.addAt(kind, fall)
		}
	}
	return into
}

// oweRole puts the role into the list of those that lack something, or takes it out.
func (e *books) oweRole(r *role) {
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
		e.promises.owed.insert(key)
	case key != r.promise.key:
		e.promises.owed.move(r.promise.key, key)
	}
	r.promise.owed, r.promise.key = true, key
}

// owedNext is where the role stands among those that lack something of their guarantee.
func (e *books) owedNext(r *role) float64 {
	if e.policy.Next == nil {
		return e.share(r.taken) / r.weight
	}
	return e.nextRole(r)
}

func (e *books) unowe(r *role) {
	if r.promise.owed {
		e.promises.owed.remove(r.promise.key)
		r.promise.owed = false
	}
}

func (e *books) oweAll() {
	for _, r := range e.promises.roles {
		if r != nil {
			e.oweRole(r)
		}
	}
}
