package engine

// floor is a lower bound of what anybody in the order would take: of each kind the least
// that any wanted shape asks for. What an agent has left below it is not worth walking
// the order for. It holds only while every member in the order states its demand.
type floor struct {
	open    int // members in the order that state none: they may take anything
	least   Amounts
	any     bool // least was set by a shape
	departs int  // members that left since least was counted: it may be too low
}

// enter counts a member that comes into the order, or comes with another demand.
func (f *floor) enter(e *books, m *member) {
	if m.demand == nil {
		f.open++
		return
	}
	for _, s := range m.demand.shapes {
		f.lower(e, s)
	}
}

// lower takes the kinds that are known: those of the others bound nothing.
func (f *floor) lower(e *books, s *shape) {
	ask := e.turn.floor[:0]
	for _, item := range s.spec.Resources.Items() {
		if kind, known := e.kinds.numbers[item.Name]; known && !item.Revocable {
			ask.addAt(kind, size(item))
		}
	}
	e.turn.floor = ask
	if !f.any {
		f.any = true
		f.least.set(ask)
		return
	}
	for kind := range f.least {
		f.least[kind] = min(f.least[kind], ask.At(kind))
	}
}

// depart counts a member that goes; now and then the bound is counted anew.
func (f *floor) depart(e *line, m *member) {
	if m.demand == nil {
		f.open--
		return
	}
	f.departs++
	if f.departs <= 64+e.all.size {
		return
	}
	f.departs, f.any, f.least = 0, false, f.least[:0]
	for _, other := range e.members {
		if other != nil && other != m && other.listed && other.demand != nil {
			for _, s := range other.demand.shapes {
				f.lower(e.books, s)
			}
		}
	}
}

// under reports whether nobody can take anything of what the agent has left.
func (f *floor) under(a *agent) bool {
	return f.open == 0 && f.any && !a.counted.holds(f.least)
}
