// Package tally counts, for metrics, what changes while one master leads: what becomes of offers, which tasks are
// launched and how they end. It names a bounded number of frameworks and jobs, and sums the rest. It reads the records of
// the leader's core and knows nothing else.
package tally

import (
	"maps"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/internal/guard"
)

// Tally counts. The zero value is not ready to use. Only one goroutine at a time may use it, but for NameOf.
type Tally struct {
	counts           Counts
	frameworks, jobs guard.Names
	began            map[api.TaskRef]beginning // launched, and not RUNNING yet
	most             int                       // entries of began since it was made
	waits            waits
	jobWants         map[api.FrameworkID]map[string]Wants // by job, as its manager has told last
	started          func(time.Duration)
}

// beginning is when a task was asked for, and when it was launched.
type beginning struct{ asked, launched time.Time }

// Counts is what was counted. Nobody changes it any more.
type Counts struct {
	Offers    map[Offers]uint64
	Starts    map[string]Starts // by framework
	JobStarts map[string]Starts
	Ends      map[Ends]uint64
	JobEnds   map[Ends]uint64
	// WantsSince is since when each framework has wanted something without a break. Those that are summed have the
	// earliest of theirs.
	WantsSince map[string]time.Time
	// JobWants is what jobs want that wait for resources.
	JobWants map[string]Wants
}

// Wants is how many tasks of a job wait for resources, and since when it has always had some that wait.
type Wants struct {
	Tasks int64
	Since time.Time
}

// Starts counts the tasks of one framework, or of one job: those that were launched, those of them that have come to run,
// and how long it took these, together, from when their framework asked for them.
type Starts struct {
	Launched, Ran uint64
	Waited        time.Duration
}

// Plus returns what both have counted.
func (s Starts) Plus(o Starts) Starts {
	return Starts{s.Launched + o.Launched, s.Ran + o.Ran, s.Waited + o.Waited}
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
			Offers: make(map[Offers]uint64), Starts: make(map[string]Starts), JobStarts: make(map[string]Starts), Ends: make(map[Ends]uint64), JobEnds: make(map[Ends]uint64),
		},
		began: make(map[api.TaskRef]beginning), waits: make(waits), jobWants: make(map[api.FrameworkID]map[string]Wants), started: started,
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
		case change.Job:
			if r.What == change.Figures {
				t.countWants(r)
			}
		case change.Framework:
			switch r.What {
			case change.Asked:
				t.waits.ask(r)
			case change.Disconnected: // what its jobs want it says again in its next session
				delete(t.jobWants, r.Framework)
			case change.Removed:
				delete(t.jobWants, r.Framework)
				t.waits.forget(r.Framework)
				t.forget(string(r.Framework))
			}
		}
	}
}

func (t *Tally) countOffer(r *change.Record) {
	t.counts.Offers[Offers{t.frameworks.Of(string(r.Framework)), r.What}]++
}

func (t *Tally) countTask(r *change.Record) {
	ref := api.TaskRef{Framework: r.Framework, Task: r.Task}
	if r.What == change.Launched {
		t.countStart(r, Starts{Launched: 1})
		t.began[ref] = beginning{t.waits.launch(r), r.At}
		t.most = max(t.most, len(t.began))
		return
	}
	if r.What == running {
		if began, is := t.began[ref]; is {
			t.started(r.At.Sub(began.launched))
			t.countStart(r, Starts{Ran: 1, Waited: r.At.Sub(began.asked)})
			t.forgetBeginning(ref)
		}
		return
	}
	state, is := change.EndOf(r.What)
	if !is {
		return
	}
	t.forgetBeginning(ref)
	t.counts.Ends[Ends{t.frameworks.Of(string(r.Framework)), state, r.Reason}]++
	if r.Job != "" {
		t.counts.JobEnds[Ends{t.jobs.Of(r.Job), state, r.Reason}]++
	}
}

// forgetBeginning forgets that a task was launched. After a burst of launches the map is made anew, because one that is
// emptied keeps its memory.
func (t *Tally) forgetBeginning(ref api.TaskRef) {
	delete(t.began, ref)
	if len(t.began) == 0 && t.most > burst {
		t.began, t.most = make(map[api.TaskRef]beginning), 0
	}
}

// burst is how many launches under way are many.
const burst = 1024

// countWants takes in what all jobs of a framework want from now on.
func (t *Tally) countWants(r *change.Record) {
	before, now := t.jobWants[r.Framework], make(map[string]Wants, len(r.Wanted))
	for job, tasks := range r.Wanted { // order: irrelevant because each is counted alone
		since := r.At
		if had, is := before[job]; is {
			since = had.Since
		}
		now[job] = Wants{tasks, since}
	}
	t.jobWants[r.Framework] = now
}

// wantsOfJobs returns what jobs want under the names by which jobs are counted.
func (t *Tally) wantsOfJobs() map[string]Wants {
	all := make(map[string]Wants)
	for _, jobs := range t.jobWants { // order: irrelevant because it sums
		for job, wants := range jobs {
			if job != guard.Others {
				job = t.jobs.Of(job)
			}
			sum := all[job]
			if sum.Since.IsZero() || wants.Since.Before(sum.Since) {
				sum.Since = wants.Since
			}
			sum.Tasks += wants.Tasks
			all[job] = sum
		}
	}
	return all
}

func (t *Tally) countStart(r *change.Record, more Starts) {
	name := t.frameworks.Of(string(r.Framework))
	t.counts.Starts[name] = t.counts.Starts[name].Plus(more)
	if r.Job != "" {
		name = t.jobs.Of(r.Job)
		t.counts.JobStarts[name] = t.counts.JobStarts[name].Plus(more)
	}
}

// forget gives the place of a framework that was removed to the next one. Its counts go on with those of all others, so
// that no sum falls.
func (t *Tally) forget(framework string) {
	if !t.frameworks.Forget(framework) {
		return
	}
	for key, n := range t.counts.Offers { // order: irrelevant because it moves counts
		if key.Framework == framework {
			delete(t.counts.Offers, key)
			t.counts.Offers[Offers{guard.Others, key.Outcome}] += n
		}
	}
	for key, n := range t.counts.Ends { // order: irrelevant because it moves counts
		if key.Of == framework {
			delete(t.counts.Ends, key)
			t.counts.Ends[Ends{guard.Others, key.State, key.Reason}] += n
		}
	}
	if starts, is := t.counts.Starts[framework]; is {
		delete(t.counts.Starts, framework)
		t.counts.Starts[guard.Others] = t.counts.Starts[guard.Others].Plus(starts)
	}
}

// Counts returns what was counted until now.
func (t *Tally) Counts() Counts {
	return Counts{
		Offers: maps.Clone(t.counts.Offers), Starts: maps.Clone(t.counts.Starts), JobStarts: maps.Clone(t.counts.JobStarts),
		Ends: maps.Clone(t.counts.Ends), JobEnds: maps.Clone(t.counts.JobEnds), WantsSince: t.waits.since(t.NameOf), JobWants: t.wantsOfJobs(),
	}
}

// NameOf returns the name under which the framework was counted. It may be called from any goroutine.
func (t *Tally) NameOf(framework api.FrameworkID) string {
	return t.frameworks.Known(string(framework))
}

var running = change.StateOfTask(api.TaskRunning)
