package engine

import (
	"cmp"
	"slices"
)

// flat is an order of members by a policy's Less, in place of the tree of roles.
type flat struct {
	list []stand
	leaf place // stands for a seat in it
}

// stand is a member's place, with what it was put there for.
type stand struct {
	Standing
	served      uint64
	number      int32
	steppedBack bool
}

func (e *ranking) standOf(m *member) stand {
	return stand{e.standing(m), m.served, m.number, m.steppedBack}
}

// compareStands puts those that have stepped back last, then goes by the policy; equals take turns.
func (e *ranking) compareStands(x, y stand) int {
	less := e.policy.Less
	switch {
	case x.steppedBack != y.steppedBack && y.steppedBack:
		return -1
	case x.steppedBack != y.steppedBack:
		return +1
	case less(x.Standing, y.Standing):
		return -1
	case less(y.Standing, x.Standing):
		return +1
	}
	return cmp.Or(cmp.Compare(x.served, y.served), cmp.Compare(x.number, y.number))
}

func (o *order) insertFlat(m *member) {
	s := o.ranking.standOf(m)
	at, _ := slices.BinarySearchFunc(o.flat.list, s, o.ranking.compareStands)
	o.flat.list = slices.Insert(o.flat.list, at, s)
	*o.seat(m) = seat{leaf: &o.flat.leaf}
	o.size++
}

func (o *order) removeFlat(m *member) {
	if at := o.flat.find(m); at >= 0 {
		o.flat.list = slices.Delete(o.flat.list, at, at+1)
		*o.seat(m) = seat{}
		o.size--
	}
}

func (o *order) refreshFlat(m *member) {
	if at := o.flat.find(m); at >= 0 && o.flat.list[at] != o.ranking.standOf(m) {
		o.removeFlat(m)
		o.insertFlat(m)
	}
}

// refreshAllFlat sorts anew, when all shares have changed at once.
func (o *order) refreshAllFlat() {
	for i := range o.flat.list {
		o.flat.list[i] = o.ranking.standOf(o.ranking.members[o.flat.list[i].number])
	}
	slices.SortFunc(o.flat.list, o.ranking.compareStands)
}

func (f *flat) find(m *member) int {
	return slices.IndexFunc(f.list, func(s stand) bool { return s.number == m.number })
}

// serveFlat asks the members in order, those of the role and below alone where one is owed
// something, until one takes something.
func (e *server) serveFlat(a *agent, o *order, owed *role) bool {
	for _, s := range o.flat.list {
		if m := e.members[s.number]; owed == nil || m.role.name.Within(owed.name) {
			if e.serveMember(a, m, o, owed != nil) {
				return true
			}
		}
	}
	return false
}
