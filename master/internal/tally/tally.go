// Package tally counts, for metrics, what changes while one master leads: what becomes of offers, which tasks are
// launched and how they end. It names a bounded number of frameworks and jobs, and sums the rest. It reads the records of
// the leader's core and knows nothing else.
package tally

import (
	"maps"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/change"
)

// namesMax is how many frameworks have counts of their own, and how many jobs.
const namesMax = 100

// Other is the name under which everything is counted that has no place of its own.
const Other = "other"

// Tally counts. The zero value is not ready to use. Only one goroutine at a time may use it.
type Tally struct {
	counts           Counts
	frameworks, jobs map[string]struct{}
	began            map[api.TaskRef]time.Time // launched, and not RUNNING yet
	started          func(time.Duration)
}

// Counts is what was counted. Nobody changes it any more.
type Counts struct {
	Offers   map[Offers]uint64
	Launches map[string]uint64 // by framework
	Ends     map[Ends]uint64
	JobEnds  map[Ends]uint64
	Named    map[string]struct{} // frameworks that have counts of their own
}

// Offers names offers of one framework with one outcome.
type Offers struct {
	Framework string
	Outcome   change.What
}

// Ends names ends of tasks of one framework, or of one job.
type Ends struct {
	Of     string
	State  api.TaskState
	Reason api.Reason
}

// New returns a tally that calls started with the time from a task's launch until it is RUNNING.
func New(started func(time.Duration)) *Tally {
	return &Tally{
		counts: Counts{
			Offers: make(map[Offers]uint64), Launches: make(map[string]uint64), Ends: make(map[Ends]uint64), JobEnds: make(map[Ends]uint64),
		},
		frameworks: make(map[string]struct{}), jobs: make(map[string]struct{}),
		began: make(map[api.TaskRef]time.Time), started: started,
	}
}

// Count counts what has changed.
func (t *Tally) Count(records []change.Record) {
	for i := range records {
		switch r := &records[i]; r.Kind {
		case change.Offer:
			t.countOffer(r)
		case change.Task:
			t.countTask(r)
		case change.Framework:
			if r.What == change.Removed {
				t.forget(string(r.Framework))
			}
		}
	}
}

func (t *Tally) countOffer(r *change.Record) {
	t.counts.Offers[Offers{place(t.frameworks, string(r.Framework)), r.What}]++
}

func (t *Tally) countTask(r *change.Record) {
	ref := api.TaskRef{Framework: r.Framework, Task: r.Task}
	if r.What == change.Launched {
		t.counts.Launches[place(t.frameworks, string(r.Framework))]++
		t.began[ref] = r.At
		return
	}
	if r.What == running {
		if at, is := t.began[ref]; is {
			t.started(r.At.Sub(at))
			delete(t.began, ref)
		}
		return
	}
	state, is := ends[r.What]
	if !is {
		return
	}
	delete(t.began, ref)
	t.counts.Ends[Ends{place(t.frameworks, string(r.Framework)), state, r.Reason}]++
	if r.Job != "" {
		t.counts.JobEnds[Ends{place(t.jobs, r.Job), state, r.Reason}]++
	}
}

// place returns the name under which something is counted.
func place(known map[string]struct{}, name string) string {
	if _, is := known[name]; is {
		return name
	}
	if len(known) >= namesMax {
		return Other
	}
	known[name] = struct{}{}
	return name
}

// forget gives the place of a framework that was removed to the next one. Its counts go on with those of all others, so
// that no sum falls.
func (t *Tally) forget(framework string) {
	if _, is := t.frameworks[framework]; !is {
		return
	}
	delete(t.frameworks, framework)
	for key, n := range t.counts.Offers { // order: irrelevant because it moves counts
		if key.Framework == framework {
			delete(t.counts.Offers, key)
			t.counts.Offers[Offers{Other, key.Outcome}] += n
		}
	}
	for key, n := range t.counts.Ends { // order: irrelevant because it moves counts
		if key.Of == framework {
			delete(t.counts.Ends, key)
			t.counts.Ends[Ends{Other, key.State, key.Reason}] += n
		}
	}
	if n := t.counts.Launches[framework]; n > 0 {
		delete(t.counts.Launches, framework)
		t.counts.Launches[Other] += n
	}
}

// Counts returns what was counted until now.
func (t *Tally) Counts() Counts {
	return Counts{
		Offers: maps.Clone(t.counts.Offers), Launches: maps.Clone(t.counts.Launches),
		Ends: maps.Clone(t.counts.Ends), JobEnds: maps.Clone(t.counts.JobEnds), Named: maps.Clone(t.frameworks),
	}
}

// NameOf returns the name under which the framework was counted.
func (c Counts) NameOf(framework api.FrameworkID) string {
	if _, is := c.Named[string(framework)]; is {
		return string(framework)
	}
	return Other
}

var running = change.StateOfTask(api.TaskRunning)

// ends has the states in which tasks end, by the word of their change.
var ends = func() map[change.What]api.TaskState {
	all := make(map[change.What]api.TaskState)
	for state := api.TaskStaging; state <= api.TaskUnknown; state++ {
		if state.Terminal() {
			all[change.StateOfTask(state)] = state
		}
	}
	return all
}()
