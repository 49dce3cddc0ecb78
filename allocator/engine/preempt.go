package engine

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
)

// asker asks back what others hold for demand that nothing free can meet: offers that are kept, and tasks that the
// policy says give way.
type asker struct {
	*decider
	line *line
	// Of the look at kept offers that is under way: for whom something was asked back, and how much.
	askers []*member
	given  map[*shape]int64
}

// preempts is how a member has fared with what was preempted for it.
type preempts struct {
	offered bool    // it holds an offer of what was kept for it
	strikes int     // such offers that came back untouched, one after the other
	until   instant // it preempts no more before
	// asked counts how often kept offers were asked back for it since it launched something last; asksBack is when
	// that may happen again.
	asked    int
	asksBack instant
}

const (
	// preemptPause is how long a demand preempts nothing after it declined what was
	// freed for it; it doubles each time up to preemptPauseMax.
	preemptPause    = time.Second
	preemptPauseMax = 10 * time.Minute
	// inversesMax is how many tasks' worth is asked back in one round; the rest follows
	// preemptSoon later.
	inversesMax = 128
	preemptSoon = time.Millisecond
)

func (e *books) preemptAgain(m *member) {
	m.preempts = preempts{}
	e.keeps.stale = true
}

func (e *books) preemptLater(m *member) {
	p := &m.preempts
	if !p.offered {
		return
	}
	p.offered = false
	p.until = e.now + instant(min(preemptPause<<min(p.strikes, 20), preemptPauseMax))
	p.strikes++
}

// preempt asks tasks that give way back for demand that nothing free can meet: in the
// order of the members, for one task after the other.
func (e *asker) preempt() []allocator.Inverse {
	if !e.preempts || !e.keeps.stale || e.hold {
		return nil
	}
	e.keeps.stale, e.keeps.wakes = false, false
	var asked []allocator.Inverse
	for m := range e.line.all.members() {
		e.preemptForMember(m, &asked)
	}
	return asked
}

func (e *asker) preemptForMember(m *member, asked *[]allocator.Inverse) {
	if m.demand == nil {
		return
	}
	if m.preempts.until > e.now {
		e.keeps.wakeAt(m.preempts.until)
		return
	}
	for _, s := range m.demand.shapes {
		if s.left() <= s.asked || !e.mayHave(m, s) {
			continue
		}
		bids := e.bids(m, s)
		for s.left() > s.asked {
			best := e.cheapest(bids)
			if best < 0 {
				break
			}
			if len(*asked) == inversesMax {
				e.keeps.wakeAt(e.books.now + instant(preemptSoon))
				return
			}
			a := bids[best].agent
			now := e.bid(m, s, a) // what was asked before may have made it dearer
			if !slices.Equal(now.victims, bids[best].victims) {
				bids[best] = now
				continue
			}
			*asked = append(*asked, e.ask(m, s, a, now.victims))
			bids[best] = e.bid(m, s, a)
		}
	}
}

// mayHave reports whether the member may have one of the shape at all, if others made
// room: nothing is preempted for what could not be offered anyway.
func (e *asker) mayHave(m *member, s *shape) bool {
	ask, known := e.askOf(s)
	if !known || s.revocable && !m.framework.spec.Revocable {
		return false
	}
	for kind, x := range ask {
		if most := m.framework.most; kind < len(most) && x > most[kind] {
			return false
		}
		for r := m.role; r != nil; r = r.parent {
			if kind < len(r.limit) && x > r.limit[kind] {
				return false
			}
		}
	}
	if e.promises.count > 0 {
		relief := e.relief(m.role, e.turn.relief)
		e.turn.relief = relief
		for kind, x := range ask {
			if x > 0 && e.promises.need.At(kind) > relief.At(kind) {
				return false
			}
		}
	}
	return true
}

// lack is room that is missing under the limit of a role: victims must make it there.
type lack struct {
	role   *role
	kind   int
	amount int64
}

// lacks are what limits lack for one more of the shape, with what is under way.
func (e *asker) lacks(m *member, s *shape) []lack {
	var lacks []lack
	for r := m.role; r != nil; r = r.parent {
		for kind, x := range s.ask {
			if x == 0 || kind >= len(r.limit) || r.limit[kind] == unbounded {
				continue
			}
			if over := r.taken.At(kind) + r.asked.At(kind) - r.leaving.At(kind) + x - r.limit[kind]; over > 0 {
				lacks = append(lacks, lack{r, kind, over})
			}
		}
	}
	return lacks
}

// ask notes what is under way and puts it into words for the core.
func (e *asker) ask(m *member, s *shape, a *agent, victims []*task) allocator.Inverse {
	e.keeps.begin(&keep{agent: a, of: m, shape: s, victims: victims})
	inverse := allocator.Inverse{For: m.framework.spec.ID, Role: m.role.name, Agent: a.id}
	for _, t := range victims {
		e.leaving(t, +1)
		inverse.Victims = append(inverse.Victims, t.claim)
	}
	return inverse
}

func (e *asker) bids(m *member, s *shape) []bid {
	var bids []bid
	for _, a := range e.agents {
		if a == nil || len(a.tasks) == 0 || !e.mayRun(m, s, a) {
			continue
		}
		if one := e.bid(m, s, a); one.victims != nil {
			bids = append(bids, one)
		}
	}
	return bids
}

// cheapest is the bid that costs least, the first of equals; -1 = there is none.
func (e *asker) cheapest(bids []bid) int {
	best := -1
	for i := range bids {
		if bids[i].victims != nil && (best < 0 || e.isCheaper(bids[i].cost, bids[best].cost)) {
			best = i
		}
	}
	return best
}

// mayRun reports whether the agent is one where the shape could be offered.
func (e *decider) mayRun(m *member, s *shape, a *agent) bool {
	return a.offerable && e.passes(m.gate, a) && e.passes(s.gate, a) && s.roomInPlaces(a) > 0 &&
		(!s.spec.OnlyPreferred || s.isNear(a)) && e.filtered(a, m, s.spec.Resources) == nil
}
