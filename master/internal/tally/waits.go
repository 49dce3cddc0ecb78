package tally

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/change"
)

// waits tells for how long frameworks want what they have asked for. What was asked for first counts as launched first,
// so that the sum of all waits is right whichever task it was.
type waits map[wanting]*queue

type wanting struct {
	framework api.FrameworkID
	role      api.Role
}

// askedMax bounds how many times of asking a queue tells apart. What is asked for beyond it counts as asked for with the
// last of these.
const askedMax = 64

// queue is what a framework wants in one role.
type queue struct {
	since   time.Time // from when on it has always wanted something; of no meaning when it wants nothing
	waiting []asked   // the oldest first
	taken   []asked   // what the last change of the demand took away. If that was an accept, launches follow
}

// asked is how many tasks were asked for at one time.
type asked struct {
	at    time.Time
	count int64
}

// ask takes in all that the framework wants in the role from now on.
func (w waits) ask(r *change.Record) {
	key := wanting{r.Framework, r.Role}
	q := w[key]
	if q == nil {
		q = new(queue)
		w[key] = q
	}
	if len(q.waiting) == 0 {
		q.since = r.At
	}
	more := int64(0)
	for i := range r.Asked {
		more += r.Asked[i].Count
	}
	for _, before := range q.waiting {
		more -= before.count
	}
	q.taken = q.taken[:0]
	switch {
	case more > 0 && len(q.waiting) == askedMax:
		q.waiting[askedMax-1].count += more
	case more > 0:
		q.waiting = append(q.waiting, asked{r.At, more})
	case more < 0:
		q.waiting, q.taken = move(q.waiting, q.taken, -more)
	}
}

// move moves the first n from one list to the end of another.
func move(from, to []asked, n int64) (rest, grown []asked) {
	whole := 0
	for ; whole < len(from) && from[whole].count <= n; whole++ {
		n -= from[whole].count
	}
	to = append(to, from[:whole]...)
	if n > 0 {
		to = append(to, asked{from[whole].at, n})
		from[whole].count -= n
	}
	return append(from[:0], from[whole:]...), to
}

// launch returns when a task was asked for that is launched now.
func (w waits) launch(r *change.Record) time.Time {
	q := w[wanting{r.Framework, r.Role}]
	if q == nil || len(q.taken) == 0 {
		return r.At // its framework says nothing of what it wants
	}
	first := &q.taken[0]
	at := first.at
	if first.count--; first.count == 0 {
		q.taken = append(q.taken[:0], q.taken[1:]...)
	}
	return at
}

func (w waits) forget(framework api.FrameworkID) {
	for key := range w { // order: irrelevant because all of the framework are deleted
		if key.framework == framework {
			delete(w, key)
		}
	}
}

// since returns from when on each name has wanted something.
func (w waits) since(nameOf func(api.FrameworkID) string) map[string]time.Time {
	all := make(map[string]time.Time)
	for key, q := range w { // order: irrelevant because the earliest is taken
		if len(q.waiting) == 0 {
			continue
		}
		name := nameOf(key.framework)
		if at, is := all[name]; !is || q.since.Before(at) {
			all[name] = q.since
		}
	}
	return all
}
