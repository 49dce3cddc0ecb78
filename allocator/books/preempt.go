package books

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
)

// preempts is how a member has fared with what was preempted for it.
type preempts struct {
	offered bool    // it holds an offer of what was kept for it
	strikes int     // such offers that came back untouched, one after the other
	until   instant // it preempts no more before
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

func (b *Books) preemptAgain(m *member) {
	m.preempts = preempts{}
	b.keeps.stale = true
}

func (b *Books) preemptLater(m *member) {
	p := &m.preempts
	if !p.offered {
		return
	}
	p.offered = false
	p.until = b.now + instant(min(preemptPause<<min(p.strikes, 20), preemptPauseMax))
	p.strikes++
}

// preempt asks tasks of lower rank back for demand that nothing free can meet: in the
// order of the members, for one task after the other.
func (b *Books) preempt() []allocator.Inverse {
	if !b.options.Preempts || !b.keeps.stale || b.hold {
		return nil
	}
	b.keeps.stale, b.keeps.wakes = false, false
	var asked []allocator.Inverse
	for _, l := range b.all.lanes {
		b.preemptFor(l.root, &asked)
	}
	return asked
}

func (b *Books) preemptFor(p *place, asked *[]allocator.Inverse) {
	for _, chunk := range p.list.chunks {
		for _, e := range chunk {
			if e.id < 0 {
				b.preemptFor(b.all.parts[^e.id], asked)
			} else if m := b.members[e.id]; m.demand != nil {
				b.preemptForMember(m, asked)
			}
		}
	}
}

func (b *Books) preemptForMember(m *member, asked *[]allocator.Inverse) {
	if m.preempts.until > b.now {
		b.keeps.wakeAt(m.preempts.until)
		return
	}
	for _, s := range m.demand.shapes {
		if s.left() <= s.asked || !b.mayHave(m, s) {
			continue
		}
		bids := b.bids(m, s)
		for s.left() > s.asked {
			best := cheapest(bids)
			if best < 0 {
				break
			}
			if len(*asked) == inversesMax {
				b.keeps.wakeAt(b.now + instant(preemptSoon))
				return
			}
			a := bids[best].agent
			now := b.bid(m, s, a) // what was asked before may have made it dearer
			if !slices.Equal(now.victims, bids[best].victims) {
				bids[best] = now
				continue
			}
			*asked = append(*asked, b.ask(m, s, a, now.victims))
			bids[best] = b.bid(m, s, a)
		}
	}
}

// mayHave reports whether the member may have one of the shape at all, if others made
// room: nothing is preempted for what could not be offered anyway.
func (b *Books) mayHave(m *member, s *shape) bool {
	ask, known := b.askOf(s)
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
	if b.promises.count > 0 {
		relief := b.relief(m.role, b.turn.relief)
		b.turn.relief = relief
		for kind, x := range ask {
			if x > 0 && b.promises.need.at(kind) > relief.at(kind) {
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
func (b *Books) lacks(m *member, s *shape) []lack {
	var lacks []lack
	for r := m.role; r != nil; r = r.parent {
		for kind, x := range s.ask {
			if x == 0 || kind >= len(r.limit) || r.limit[kind] == unbounded {
				continue
			}
			if over := r.taken.at(kind) + r.asked.at(kind) - r.leaving.at(kind) + x - r.limit[kind]; over > 0 {
				lacks = append(lacks, lack{r, kind, over})
			}
		}
	}
	return lacks
}

// ask notes what is under way and puts it into words for the core.
func (b *Books) ask(m *member, s *shape, a *agent, victims []*task) allocator.Inverse {
	b.keeps.begin(&keep{agent: a, of: m, shape: s, victims: victims})
	inverse := allocator.Inverse{For: m.framework.spec.ID, Role: m.role.name, Agent: a.id}
	for _, t := range victims {
		b.leaving(t, +1)
		inverse.Victims = append(inverse.Victims, t.claim)
	}
	return inverse
}

func (b *Books) bids(m *member, s *shape) []bid {
	var bids []bid
	for _, a := range b.agents {
		if a == nil || len(a.tasks) == 0 || !b.mayRun(m, s, a) {
			continue
		}
		if one := b.bid(m, s, a); one.victims != nil {
			bids = append(bids, one)
		}
	}
	return bids
}

// cheapest is the bid that costs least, the first of equals; -1 = there is none.
func cheapest(bids []bid) int {
	best := -1
	for i := range bids {
		if bids[i].victims != nil && (best < 0 || bids[i].cost.less(bids[best].cost)) {
			best = i
		}
	}
	return best
}

// mayRun reports whether the agent is one where the shape could be offered.
func (b *Books) mayRun(m *member, s *shape, a *agent) bool {
	return a.offerable && b.passes(m.gate, a) && b.passes(s.gate, a) && s.roomInPlaces(a) > 0 &&
		(!s.spec.OnlyPreferred || s.isNear(a)) && b.filtered(a, m, s.spec.Resources) == nil
}
