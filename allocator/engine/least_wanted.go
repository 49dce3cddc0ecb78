package engine

import (
	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// floor is a lower bound of what any member in the order would take: of each kind the least that any wanted shape asks
// for. If an agent has less left, there is no need to go through the order. The bound applies only while every member
// in the order states a demand.
type floor struct {
	open    int // members in the order without a demand: they may take anything
	least   books.Amounts
	any     bool // least has been set by a shape
	departs int  // members that have left since least was computed: it may be too low
}

// enter counts a member that comes into the order, or whose demand has changed.
func (f *floor) enter(e *books.Books, m *books.Member) {
	if m.Demand == nil {
		f.open++
		return
	}
	for _, s := range m.Demand.Shapes {
		f.lower(e, s)
	}
}

// lower lowers the bound to what the shape asks for, of the kinds that agents have. Other kinds have no bound.
func (f *floor) lower(e *books.Books, s *books.Shape) {
	ask := e.Turn.Floor[:0]
	for _, item := range s.Spec.Resources.Items() {
		if kind, known := e.Kinds.Numbers[item.Name]; known && !item.Revocable {
			ask.AddAt(kind, books.Size(item))
		}
	}
	e.Turn.Floor = ask
	if !f.any {
		f.any = true
		f.least.Set(ask)
		return
	}
	for kind := range f.least {
		f.least[kind] = min(f.least[kind], ask.At(kind))
	}
}

// depart counts a member that leaves. Now and then the bound is computed anew.
func (f *floor) depart(e *line, m *books.Member) {
	if m.Demand == nil {
		f.open--
		return
	}
	f.departs++
	if f.departs <= 64+e.all.size {
		return
	}
	f.departs, f.any, f.least = 0, false, f.least[:0]
	for _, other := range e.Members {
		if other != nil && other != m && other.Listed && other.Demand != nil {
			for _, s := range other.Demand.Shapes {
				f.lower(e.Books, s)
			}
		}
	}
}

// under reports whether nobody can take anything of what the agent has left.
func (f *floor) under(a *books.Agent) bool {
	return f.open == 0 && f.any && !a.Counted.Holds(f.least)
}
