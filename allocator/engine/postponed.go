package engine

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// A shape that is spread takes nothing of an agent when it is its turn there: the agent is put by, with all that it
// has left, for all such shapes of the member, until every agent of the round was looked at. Then the places are
// served from the emptiest on, each until it is level with the next one. So shares stay as they are in the order, for
// nobody behind takes what is put by, and a task goes where the fewest are among the places that have room for it.
// What an agent that nobody looks at could give was refused before for other reasons; each round ends with nothing
// put by.

// occasion says for which members an agent is being looked at.
type occasion uint8

const (
	forAll occasion = iota
	forFew
	forPending // members whose filter has ended
)

// postponed is what waits for one spread shape.
type postponed struct {
	shape  *books.Shape
	places waitingPlaces
	byName map[string]*waitingPlace
	waits  map[int32]bool // by number of agent
}

// waitingPlace has the agents of one place. count is what the shape had there when it was looked at last.
type waitingPlace struct {
	name   string
	count  int64
	agents waitingAgents
}

// waitingAgent is one of them; rest is what its other places had.
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

// admission is what a shape may take of the agent at hand, because it is the turn of that place.
type admission struct {
	shape *books.Shape
	n     int64
}

// is reports whether the shape may take something now.
func (a admission) is(s *books.Shape) bool { return a.shape == s && a.n > 0 }

// postpone lets the agent at hand wait until all agents of the round were looked at.
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

// interrupt remembers the agent's turn, so that it goes on as one when the agent is looked at again.
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

// servePostponed looks again at what was put by, until nothing is. Each step offers something, or hands the agent to
// a shape that stands before this one in the order, or to nobody any more.
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

// serveAgain looks at the agent for those for whom it was looked at first.
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

// next takes out the agent whose turn it is: of the place with the fewest, there of the other places with the fewest.
// n is how many the place may take before another one has fewer. Counts only grow while agents wait, so what has grown
// since it was put there moves back.
func (w *postponed) next(e *server) (a *books.Agent, at occasion, n int64) {
	for len(w.places) > 0 { // also when the shape has enough: others wait behind it
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

// levelWithNext is how many the first place may take until it has one more than the next one, when that has as many,
// or as many as that. Where there are places within it, it is one at a time.
func (w *postponed) levelWithNext(p *waitingPlace) int64 {
	const many = 1 << 40
	if len(w.shape.Places) > 1 {
		return 1
	}
	least := int64(many)
	for i := 1; i < min(3, len(w.places)); i++ { // the next one is a child of the first
		least = min(least, w.places[i].count)
	}
	if least == many {
		return many
	}
	return max(1, least-p.count)
}
