package taskset

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// survey is what is known of a service's items while the service changes. It finds the next item to change without
// looking at all of them: it looks again only at items of which something has changed.
type survey struct {
	stale []*item // items to look at again
	down  int     // items that were seen and are not up
	// old holds the items that run the old version: first those that are down, then those that are up. An item may be
	// in a heap in which it no longer belongs; only its seat counts.
	old [2]byNumber
}

// seat is what the survey knows of an item.
type seat struct {
	stale bool // it is in survey.stale
	old   bool // it runs the old version and waits for its turn
	seen  sight
}

// sight says whether an item was seen, and whether it was up then.
type sight uint8

const (
	unseen sight = iota
	seenDown
	seenUp
)

// byNumber is a heap of items, the lowest number first.
type byNumber []*item

func (b byNumber) Len() int           { return len(b) }
func (b byNumber) Less(i, j int) bool { return b[i].place < b[j].place }
func (b byNumber) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byNumber) Push(x any)        { *b = append(*b, x.(*item)) }

func (b *byNumber) Pop() any {
	last := len(*b) - 1
	it := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return it
}

// touch marks an item to be looked at again, because something of it or of its tasks has changed.
func (o *rollouts) touch(it *item) {
	if v := it.service; v != nil && !it.seat.stale && o.rolling[v.name] == v {
		it.seat.stale = true
		v.survey.stale = append(v.survey.stale, it)
	}
}

// beginSurvey marks all items of a service to be looked at.
func (o *rollouts) beginSurvey(v *service) {
	v.survey = survey{}
	for i := range v.n {
		if it := o.state.items[v.id(i)]; it != nil {
			it.seat = seat{}
			o.touch(it)
		}
	}
}

// look looks at the items that were marked, the lowest numbers first. It continues the change of an item that already
// runs the new version.
func (o *rollouts) look(v *service, now time.Time) {
	for y := &v.survey; len(y.stale) > 0; {
		changed := y.stale
		y.stale = nil
		slices.SortFunc(changed, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
		for _, it := range changed {
			it.seat.stale = false
			y.leave(it)
			if o.state.items[it.ID] != it || it.service != v {
				continue
			}
			old := it.trial == nil && it.runsOld(v.roll)
			if it.trial == nil && !old {
				o.takeUp(it, v.roll, now)
			}
			y.seat(it, old)
		}
	}
}

// leave forgets what the survey knows of an item.
func (y *survey) leave(it *item) {
	if it.seat.seen == seenDown {
		y.down--
	}
	it.seat = seat{stale: it.seat.stale}
}

func (y *survey) seat(it *item, old bool) {
	it.seat.seen, it.seat.old = seenUp, old
	if !it.up() {
		it.seat.seen = seenDown
		y.down++
	}
	if old {
		heap.Push(&y.old[rankUp(it)], it)
	}
}

// next returns the item that is to be changed next; nil: none waits.
func (y *survey) next() *item {
	for rank := range y.old {
		for b := &y.old[rank]; len(*b) > 0; heap.Pop(b) {
			if it := (*b)[0]; it.seat.old && rankUp(it) == rank {
				return it
			}
		}
	}
	return nil
}

func rankUp(it *item) int {
	if it.seat.seen == seenUp {
		return 1
	}
	return 0
}
