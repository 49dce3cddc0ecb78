package engine

// promises are the guarantees of roles: what is held back for them, and whom they let
// go first. A guarantee is met by what the role holds or has reserved; until then as
// much of the cluster's spare resources as is missing is offered to nobody else.
// Guarantees of roles below count towards those above.
type promises struct {
	roles   []*role // with a guarantee, by number; nil = free number
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
