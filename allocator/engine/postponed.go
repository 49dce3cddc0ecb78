package engine

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// A shape that is spread takes nothing of an agent when its turn there comes. Instead the agent is put by, with
// everything that it has left, for all such shapes of the member, until every agent of the round was looked at. Then
// the places are served from the emptiest on, each until it has as many tasks as the next. Shares keep their order,
// because nobody further back takes what is put by. And a task goes to the place with the fewest tasks among those that
// have room for it. Agents that are not looked at in a round have refused the shape before for other reasons. At the
// end of each round nothing is put by.

// occasion says for which members an agent is being looked at.
type occasion uint8

const (
	forAll occasion = iota
	forFew
	forPending // members whose filter has ended
)

// postponed holds the agents that wait for one spread shape.
type postponed struct {
	shape  *books.Shape
	places waitingPlaces
	byName map[string]*waitingPlace
	waits  map[int32]bool // by number of agent
}

// waitingPlace holds the waiting agents of one place. count is how many of the shape the place had when it was last
// looked at.
type waitingPlace struct {
	name   string
	count  int64
	agents waitingAgents
}

// waitingAgent is a waiting agent. rest is how many of the shape its further places had.
type waitingAgent struct {
	number int32
	at     occasion
	rest   []int64
}

type waitingPlaces []*waitingPlace

func (w waitingPlaces) Len() int { return len(w) }

func (w waitingPlaces) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(w[i].count, w[j].count), cmp.Compare(w[i].name, w[j].name)) < 0
}

func (w waitingPlaces) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

func (w *waitingPlaces) Push(x any) { *w = append(*w, x.(*waitingPlace)) }

func (w *waitingPlaces) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

type waitingAgents []waitingAgent

func (w waitingAgents) Len() int { return len(w) }

func (w waitingAgents) Less(i, j int) bool {
	return cmp.Or(slices.Compare(w[i].rest, w[j].rest), cmp.Compare(w[i].number, w[j].number)) < 0
}

func (w waitingAgents) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

func (w *waitingAgents) Push(x any) { *w = append(*w, x.(waitingAgent)) }

func (w *waitingAgents) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// admission is how many of a shape may be taken of the present agent, because it is the turn of the agent's place.
type admission struct {
	shape *books.Shape
	n     int64
}

// is reports whether the shape may take something now.
func (a admission) is(s *books.Shape) bool { return a.shape == s && a.n > 0 }

// postpone lets the present agent wait until all agents of the round were looked at.
func (e *server) postpone(a *books.Agent) {
	e.interrupt(a)
	for _, s := range e.putBy.shapes {
		w := e.postponedFor(s)
		if w.waits[a.Number] {
			continue
		}
		w.waits[a.Number] = true
		name, count := s.Places[0].Of(a)
		p := w.byName[name]
		if p == nil {
			p = &waitingPlace{name: name, count: count}
			w.byName[name] = p
			heap.Push(&w.places, p)
		}
		heap.Push(&p.agents, waitingAgent{a.Number, e.occasion, s.Rest(a)})
	}
}

// interrupt stores the agent's turn, so that the turn continues when the agent is looked at again.
func (e *server) interrupt(a *books.Agent) {
	t := &e.Turn
	if t.Resumed != nil {
		return
	}
	r := &books.Resumed{Began: t.Began, Proposals: make(map[int32]int)}
	for i := t.First; i < len(t.Members); i++ {
		r.Proposals[t.Members[i]] = i
	}
	e.resumed[a.Number] = r
}

func (e *server) postponedFor(s *books.Shape) *postponed {
	for _, w := range e.postponed {
		if w.shape == s {
			return w
		}
	}
	w := &postponed{shape: s, byName: make(map[string]*waitingPlace), waits: make(map[int32]bool)}
	e.postponed = append(e.postponed, w)
	return w
}

// servePostponed looks again at the agents that were put by, until none is left. Each step offers something, or passes
// the agent on to a shape that comes before this one in the order, or frees it.
func (e *server) servePostponed() {
	for len(e.postponed) > 0 {
		w := e.postponed[0]
		a, at, n := w.next(e)
		if a == nil {
			e.postponed = slices.Delete(e.postponed, 0, 1)
			continue
		}
		e.admitted = admission{w.shape, n}
		e.serveAgain(a, at)
		e.admitted = admission{}
	}
}

// serveAgain looks at the agent again, for the members for which it was looked at first.
func (e *server) serveAgain(a *books.Agent, at occasion) {
	switch at {
	case forAll:
		before := len(e.Turn.Proposals)
		e.serveAgent(a, e.line.all, forAll)
		e.askAgain(a, before)
	case forFew:
		e.serveOthers(a, forFew)
	case forPending:
		e.servePending(a)
	}
}

// next removes and returns the agent whose turn it is: an agent of the place with the fewest tasks and, among these,
// the one whose further places have the fewest. n is how many the place may take before another place has fewer. Counts
// only grow while agents wait; a place or agent whose count has grown since it was put into the heap is moved back
// first.
func (w *postponed) next(e *server) (a *books.Agent, at occasion, n int64) {
	for len(w.places) > 0 { // even if the shape has enough, because other shapes wait after it
		p := w.places[0]
		if len(p.agents) == 0 {
			heap.Pop(&w.places)
			delete(w.byName, p.name)
			continue
		}
		first := e.Agents[p.agents[0].number]
		if _, count := w.shape.Places[0].Of(first); count > p.count {
			p.count = count
			heap.Fix(&w.places, 0)
			continue
		}
		if rest := w.shape.Rest(first); slices.Compare(rest, p.agents[0].rest) > 0 {
			p.agents[0].rest = rest
			heap.Fix(&p.agents, 0)
			continue
		}
		next := heap.Pop(&p.agents).(waitingAgent)
		delete(w.waits, next.number)
		return first, next.at, w.levelWithNext(p)
	}
	return nil, 0, 0
}

// levelWithNext returns how many the first place may take until it has as many as the next place, or one more if it has
// as many already. If there are further kinds of places within the first, it takes one at a time.
func (w *postponed) levelWithNext(p *waitingPlace) int64 {
	const many = 1 << 40
	if len(w.shape.Places) > 1 {
		return 1
	}
	least := int64(many)
	for i := 1; i < min(3, len(w.places)); i++ { // the next place is a child of the first in the heap
		least = min(least, w.places[i].count)
	}
	if least == many {
		return many
	}
	return max(1, least-p.count)
}
