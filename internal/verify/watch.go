package verify

import (
	"slices"
	"time"
)

// Watch joins several looks at a cluster that goes on meanwhile. Only what every look has found counts: what a later
// look did not find was in flight.
type Watch struct {
	// Looks is how many looks there were.
	Looks int
	// Last is the last look, whose sizes say what was compared.
	Last Look

	found  []Finding
	unseen []Unseen
	behind []string // masters whose registry no look could compare with another's
}

// Add adds a look.
func (w *Watch) Add(look Look) {
	found, behind := Check(look), alone(look.Masters)
	for i := range found {
		if found[i].Since.IsZero() {
			found[i].Since = look.At
		}
	}
	if w.Looks++; w.Looks == 1 {
		w.found, w.unseen, w.behind = found, look.Unseen, behind
	} else {
		w.found = slices.DeleteFunc(w.found, func(f Finding) bool { return !slices.ContainsFunc(found, f.same) })
		w.unseen = slices.DeleteFunc(w.unseen, func(u Unseen) bool {
			return !slices.ContainsFunc(look.Unseen, func(v Unseen) bool { return u.What == v.What })
		})
		w.behind = slices.DeleteFunc(w.behind, func(m string) bool { return !slices.Contains(behind, m) })
	}
	w.Last = look
}

// alone returns the masters that were at a place of the log at which no other one was, so that nothing is known of
// their registries' being the same.
func alone(masters []Master) (names []string) {
	at := map[uint64]int{}
	for _, m := range masters {
		at[m.Index]++
	}
	for _, m := range masters {
		if at[m.Index] == 1 && len(masters) > 1 {
			names = append(names, m.Name)
		}
	}
	return names
}

// Found returns what every look has found. After a single look it may be in flight.
func (w *Watch) Found() []Finding { return w.found }

// Unseen returns what no look could see.
func (w *Watch) Unseen() []Unseen {
	all := slices.Clone(w.unseen)
	for _, m := range w.behind {
		all = append(all, Unseen{What: "registry of master " + m, Why: "in no look was it at the same place of the log as another master"})
	}
	return all
}

// Well says whether all that was to be looked at was seen, and fits together.
func (w *Watch) Well() bool { return len(w.found)+len(w.unseen)+len(w.behind) == 0 }

// Apart is how long to wait between two looks: several heartbeats, in which everything in flight has arrived in a
// cluster that is well.
const Apart = time.Second
