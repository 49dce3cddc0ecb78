package engine

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Standing is what a policy may order by: a framework in one of its roles.
type Standing struct {
	Framework api.FrameworkID
	Name      string
	Role      api.Role
	Priority  int     // of the role; one without has its parent's
	Weight    float64 // of the role
	Share     float64 // dominant, of what the framework holds in the role
	Joined    uint64  // who was known first has the smaller number
}

// Order is a policy that the engine fills in: who of two is offered something first.
type Order struct {
	// Less reports whether a goes before b. It is a strict order that depends on nothing but the
	// two. Where neither goes before the other they take turns.
	Less func(a, b Standing) bool
	// Because says in the policy's words why the first goes before the other, for explanations such
	// as "its last offer went to f1 in role eng: it was there first". Default: that the policy puts it first.
	Because func(first, other Standing) string
}

// Ordered makes a policy from one function: whatever the agents have goes to whom the order puts
// first, as much of it as that one wants, then to the next. Guarantees go before the order, limits
// cap, and who gives offers back untouched goes last for a while, as in every policy of the engine.
//
//	engine.Ordered(config, engine.Order{Less: func(a, b engine.Standing) bool { return a.Joined < b.Joined }})
func Ordered(config allocator.Config, order Order) *Engine {
	return New(config, Options{order: order})
}

// flat is an order of members by a policy's own function instead of shares down the tree of roles.
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

func (e *Engine) standing(m *member) Standing {
	r := m.role
	priority := 0
	for above := r; above != nil && priority == 0; above = above.parent {
		priority = above.priority
	}
	return Standing{m.framework.spec.ID, m.framework.spec.Name, r.name, priority, r.weight, m.taken.dominant(e.total), m.joined}
}

func (e *Engine) standOf(m *member) stand {
	return stand{e.standing(m), m.served, m.number, m.steppedBack}
}

// compareStands puts those that yield last, then goes by the policy; equals take turns.
func (e *Engine) compareStands(x, y stand) int {
	less := e.options.order.Less
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
	s := o.engine.standOf(m)
	at, _ := slices.BinarySearchFunc(o.flat.list, s, o.engine.compareStands)
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
	if at := o.flat.find(m); at >= 0 && o.flat.list[at] != o.engine.standOf(m) {
		o.removeFlat(m)
		o.insertFlat(m)
	}
}

// refreshAllFlat sorts anew, when all shares have changed at once.
func (o *order) refreshAllFlat() {
	for i := range o.flat.list {
		o.flat.list[i] = o.engine.standOf(o.engine.members[o.flat.list[i].number])
	}
	slices.SortFunc(o.flat.list, o.engine.compareStands)
}

func (f *flat) find(m *member) int {
	return slices.IndexFunc(f.list, func(s stand) bool { return s.number == m.number })
}

// serveFlat asks the members in order, those of the role and below alone where one is owed
// something, until one takes something.
func (e *Engine) serveFlat(a *agent, o *order, owed *role) bool {
	for _, s := range o.flat.list {
		if m := e.members[s.number]; owed == nil || m.role.name.Within(owed.name) {
			if e.serveMember(a, m, o, owed != nil) {
				return true
			}
		}
	}
	return false
}

// whyAhead says in the policy's words why the other was offered what the member was not.
func (e *Engine) whyAhead(m, other *member) string {
	because := "the policy puts it first"
	if say := e.options.order.Because; say != nil {
		because = say(e.standing(other), e.standing(m))
	}
	return "its last offer went to " + string(other.framework.spec.ID) + " in role " + string(other.role.name) + ": " + because
}
