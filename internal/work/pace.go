package work

import (
	"iter"
	"slices"
	"time"
)

// Pace is how quickly the attempts of a group end, and so which of them take too long. Such a straggler gets a copy on
// another agent; whichever of the two ends well first counts.
//
// The rule is that of MapReduce's backup tasks (OSDI 2004, section 3.6) with the bounds of LATE (OSDI 2008) and Spark:
// only when no work of the group waits and three quarters of it are done; an attempt that runs for more than a factor
// of the median; the longest first; one copy for each attempt; copies of no more than a tenth of what runs.
type Pace struct {
	Took  []time.Duration // how long the latest attempts took that ended well, as a ring
	Next  int             // next position in Took
	Check time.Time       // when to look for stragglers next; zero: when the next attempt begins or ends
}

const (
	tookMost  = 256         // of how many ends the median is taken
	tookLeast = 3           // a median of fewer says too little
	copiesIn  = 10          // one in this many running attempts may be a copy (LATE: SpeculativeCap), and at least one
	lookLeast = time.Second // while there are as many copies as there may be, one does not look more often
)

// Note notes how long an attempt took that ended well.
func (p *Pace) Note(took time.Duration) {
	if len(p.Took) < tookMost {
		p.Took = append(p.Took, took)
		return
	}
	p.Took[p.Next] = took
	p.Next = (p.Next + 1) % tookMost
}

// Median returns the median of the attempts that ended well; at least one has.
func (p *Pace) Median() time.Duration { return slices.Sorted(slices.Values(p.Took))[len(p.Took)/2] }

// Asks reports whether stragglers have to be looked for now: so many of the group's pieces of work are done, and waits
// says whether any of them waits to begin. It costs nothing while they need not.
func (p *Pace) Asks(now time.Time, done, total int, waits bool) bool {
	return !p.Check.After(now) && len(p.Took) >= tookLeast && !waits && 4*done >= 3*total
}

// FindStragglers returns the attempts of a group that get a copy now, the longest running first, and has them want it. It
// is given all attempts of the group, in the order that decides between equals. One whose agent is silent, or that has
// not passed its checks, is no straggler: it is lost, or ill.
func FindStragglers[A attempted](p *Pace, now time.Time, factor float64, attempts iter.Seq[A]) (slow []A) {
	running, copies := 0, 0
	for each := range attempts {
		a := each.attempt()
		switch {
		case a.Missed:
			continue
		case a.IsCopy():
			copies++
			continue
		case a.Copying == WantsCopy && a.Kill == NotKilled:
			copies++
		case a.Copying == NoCopy && a.Kill == NotKilled && !a.Up.IsZero():
			slow = append(slow, each)
		}
		running++
	}
	slices.SortStableFunc(slow, func(a, b A) int { return a.attempt().Running.Compare(b.attempt().Running) })
	since := make([]time.Time, len(slow))
	for i, a := range slow {
		since[i] = a.attempt().Running
	}
	slow = slow[:p.Stragglers(now, factor, since, running, copies)]
	for _, a := range slow {
		a.attempt().Copying = WantsCopy
	}
	return slow
}

// Stragglers returns how many of the attempts get a copy: the first ones of those that have none, of which it is known
// since when they run, the longest first. Beside them run others in all, copies not counted, and so many copies run or
// wait. It sets Check.
func (p *Pace) Stragglers(now time.Time, factor float64, since []time.Time, running, copies int) (slow int) {
	median := p.Median()
	limit := time.Duration(factor * float64(median))
	most := max(1, (running+copiesIn-1)/copiesIn)
	p.Check = time.Time{}
	for _, began := range since {
		at := began.Add(limit)
		if copies >= most {
			at = now.Add(max(median/4, lookLeast))
		}
		if at.After(now) {
			p.Check = at
			return slow
		}
		slow++
		copies++
	}
	return slow
}
