package engine

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// asker serves demand that nothing free can meet: it asks back what others hold, which is kept offers and tasks that
// give way by the policy.
type asker struct {
	*decider
	line *line
	// askers and given are used while kept offers are looked at: for whom something was asked back, and for how many of
	// which shape.
	askers []*books.Member
	given  map[*books.Shape]int64
}

const (
	// inversesMax bounds for how many tasks something is asked back in one round; the rest follows preemptSoon later.
	inversesMax = 128
	preemptSoon = time.Millisecond
)

// preempt asks back tasks that give way, for demand that nothing free can meet. It goes through the members in their
// order, and asks for one wanted task after the other.
func (e *asker) preempt() []allocator.Inverse {
	if !e.Preempts || !e.Keeps.Stale || e.OnHold {
		return nil
	}
	e.Keeps.Stale, e.Keeps.Wakes = false, false
	var asked []allocator.Inverse
	for m := range e.line.all.members() {
		e.preemptForMember(m, &asked)
	}
	return asked
}

func (e *asker) preemptForMember(m *books.Member, asked *[]allocator.Inverse) {
	if m.Demand == nil {
		return
	}
	if m.Preempts.Until > e.Now {
		e.Keeps.WakeAt(m.Preempts.Until)
		return
	}
	for _, s := range m.Demand.Shapes {
		if s.Left() <= s.Asked || !e.mayHave(m, s) {
			continue
		}
		bids := e.bidsFor(m, s)
		for s.Left() > s.Asked {
			best := e.cheapest(bids)
			if best < 0 {
				break
			}
			if len(*asked) == inversesMax {
				e.Keeps.WakeAt(e.Books.Now + books.Instant(preemptSoon))
				return
			}
			a := bids[best].agent
			now := e.bid(m, s, a) // tasks that were asked back before may have made it dearer
			if !slices.Equal(now.victims, bids[best].victims) {
				bids[best] = now
				continue
			}
			*asked = append(*asked, e.proposeInverse(m, s, a, now.victims))
			bids[best] = e.bid(m, s, a)
		}
	}
}

// mayHave reports whether the member could be offered one of the shape at all if others made room. Nothing is preempted
// for what could not be offered anyway.
func (e *asker) mayHave(m *books.Member, s *books.Shape) bool {
	ask, known := e.AskOf(s)
	if !known || s.Revocable && !m.Framework.Spec.Revocable {
		return false
	}
	for kind, x := range ask {
		if most := m.Framework.Most; kind < len(most) && x > most[kind] {
			return false
		}
		for r := m.Role; r != nil; r = r.Parent {
			if kind < len(r.Limit) && x > r.Limit[kind] {
				return false
			}
		}
	}
	if e.Promises.Count > 0 {
		relief := e.Relief(m.Role, e.Turn.Relief)
		e.Turn.Relief = relief
		for kind, x := range ask {
			if x > 0 && e.Promises.Need.At(kind) > relief.At(kind) {
				return false
			}
		}
	}
	return true
}

// lack is what is missing under the limit of a role: tasks below that role have to give way for it.
type lack struct {
	role   *books.Role
	kind   int
	amount int64
}

// lacksOf returns what is missing under limits for one more task of the shape. What is being asked back already counts
// as free.
func (e *asker) lacksOf(m *books.Member, s *books.Shape) []lack {
	var lacks []lack
	for r := m.Role; r != nil; r = r.Parent {
		for kind, x := range s.Ask {
			if x == 0 || kind >= len(r.Limit) || r.Limit[kind] == books.Unbounded {
				continue
			}
			if over := r.Taken.At(kind) + r.Asked.At(kind) - r.Leaving.At(kind) + x - r.Limit[kind]; over > 0 {
				lacks = append(lacks, lack{r, kind, over})
			}
		}
	}
	return lacks
}

// proposeInverse notes what is being asked back, and returns the proposal for the core.
func (e *asker) proposeInverse(m *books.Member, s *books.Shape, a *books.Agent, victims []*books.Task) allocator.Inverse {
	e.Keeps.Begin(&books.Keep{Agent: a, Of: m, Shape: s, Victims: victims})
	inverse := allocator.Inverse{For: m.Framework.Spec.ID, Role: m.Role.Name, Agent: a.ID}
	for _, t := range victims {
		e.Leaving(t, +1)
		inverse.Victims = append(inverse.Victims, t.Claim)
	}
	return inverse
}

func (e *asker) bidsFor(m *books.Member, s *books.Shape) []bid {
	var bids []bid
	for _, a := range e.Agents {
		if a == nil || len(a.Tasks) == 0 || !e.mayRun(m, s, a) {
			continue
		}
		if one := e.bid(m, s, a); one.victims != nil {
			bids = append(bids, one)
		}
	}
	return bids
}

// cheapest returns the index of the bid that costs least, the first of equals; -1 = there is none.
func (e *asker) cheapest(bids []bid) int {
	best := -1
	for i := range bids {
		if bids[i].victims != nil && (best < 0 || e.isCheaper(bids[i].cost, bids[best].cost)) {
			best = i
		}
	}
	return best
}

// mayRun reports whether the shape could be offered on the agent.
func (e *decider) mayRun(m *books.Member, s *books.Shape, a *books.Agent) bool {
	return a.Offerable && e.Passes(m.Gate, a) && e.Passes(s.Gate, a) && s.RoomInPlaces(a) > 0 &&
		(!s.Spec.OnlyPreferred || s.IsNear(a)) && e.Filtered(a, m, s.Spec.Resources) == nil
}
