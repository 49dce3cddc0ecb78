package books

// promises holds the guarantees of roles: what is held back for them, and whom they let go first. A guarantee is met by
// what the role holds or has reserved. Until it is met, as much of the cluster's spare resources as is missing is
// offered to nobody else. The guarantees of roles below count towards those above.
type promises struct {
	Roles   []*Role // roles with a guarantee, by number; nil = free number
	Need    Amounts // what all roles together lack
	Spare   Amounts // unreserved and held by nobody, on agents that are offered
	Blocked bool    // somebody has got less because of Need since all agents were last looked at
	Met     bool    // somebody was offered something in this round that counts towards a guarantee
	Count   int     // number of roles with a guarantee
}

// promise is a role's part of the promises.
type promise struct {
	Number int32
	Near   bool    // this role or one above it has a guarantee, so what is taken here changes Need
	need   Amounts // what this subtree lacks
	below  Amounts // what the roles below lack, added up
	Owed   bool
	Key    Entry
}

func (b *Books) MarkNear(r *Role) {
	r.Promise.Near = r.Guarantee != nil || r.Parent != nil && r.Parent.Promise.Near
	for _, child := range r.Children {
		b.MarkNear(child)
	}
}

// RecountSpare computes what is spare, when the first guarantee is given.
func (b *Books) RecountSpare() {
	b.Promises.Spare = b.Promises.Spare[:0]
	for _, a := range b.Agents {
		if a != nil {
			a.spare = a.spare[:0]
			b.CountSpare(a)
		}
	}
}

// CountSpare replaces what the agent adds to the cluster's spare resources.
func (b *Books) CountSpare(a *Agent) {
	if b.Promises.Count == 0 {
		return
	}
	b.Promises.Spare.Sub(a.spare)
	a.spare = a.spare[:0]
	if a.Offerable {
		a.spare = b.Kinds.Count(a.spare, a.Open, Unreserved)
	}
	b.Promises.Spare.Add(a.spare)
}

// RecountNeed updates what is lacking, from r up to the root, after the holdings of r's subtree have changed.
func (b *Books) RecountNeed(r *Role) {
	change := b.Turn.change[:0]
	for ; r != nil; r = r.Parent {
		change = change[:0]
		for kind := range b.Kinds.Names {
			need := max(r.Unmet(kind), r.Promise.below.At(kind))
			if delta := need - r.Promise.need.At(kind); delta != 0 {
				change.AddAt(kind, delta)
			}
		}
		r.Promise.need.Add(change)
		if r.Parent != nil {
			r.Parent.Promise.below.Add(change)
		} else {
			b.Promises.Need.Add(change)
		}
	}
	b.Turn.change = change
}

// Unmet returns how much of a kind the role itself lacks of its guarantee.
func (r *Role) Unmet(kind int) int64 { return max(0, r.Guarantee.At(kind)-r.Taken.At(kind)) }

// IsGuaranteed reports whether the role, or one above, is guaranteed some of the kind.
func (r *Role) IsGuaranteed(kind int) bool {
	for ; r != nil; r = r.Parent {
		if r.Guarantee.At(kind) > 0 {
			return true
		}
	}
	return false
}

// LackingGuarantee returns the nearest role, from r upwards, with a guarantee that lacks something.
func (r *Role) LackingGuarantee() *Role {
	for ; r != nil; r = r.Parent {
		for kind := range r.Guarantee {
			if r.Unmet(kind) > 0 {
				return r
			}
		}
	}
	return nil
}

// Relief returns by how much the cluster's need would fall if the role's members were given everything they could take.
// That much of what is spare is for them.
func (b *Books) Relief(r *Role, into Amounts) Amounts {
	into = into[:0]
	for kind := range b.Kinds.Names {
		fall := r.Promise.need.At(kind) - r.Promise.below.At(kind)
		for above := r.Parent; above != nil; above = above.Parent {
			fall = above.Promise.need.At(kind) - max(0, above.Promise.below.At(kind)-fall)
		}
		if fall > 0 {
			into.AddAt(kind, fall)
		}
	}
	return into
}
