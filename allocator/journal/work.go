package journal

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
)

// job is a task of the record: what it asked for, since when its framework wanted it, when it started and how long it
// ran.
type job struct {
	who       queueKey
	task      api.TaskID
	resources api.Resources
	wanted    time.Time
	started   time.Time
	ran       time.Duration
	ended     bool // false: it was still running when the record ended
}

type queueKey struct {
	framework api.FrameworkID
	role      api.Role
}

// work is what a section says about the cluster and about the work to be done on it, apart from what the recorded
// policy made of it.
type work struct {
	world      []happening // agents, frameworks, roles
	jobs       []*job      // ordered by start
	begin, end time.Time
}

// happening is an input that does not depend on the policy.
type happening struct {
	at    time.Time
	input inputs.Input
}

// workOf extracts the work from a section. Inputs carry no time: each is taken to have happened when the Allocate that
// follows it was called.
func workOf(section *Section) *work {
	w := &work{}
	running := make(map[api.TaskRef]*job)
	wanted := make(map[queueKey][]time.Time)
	var waiting []inputs.Input
	for _, step := range section.Steps {
		run, is := step.Input.(inputs.Allocate)
		if !is {
			waiting = append(waiting, step.Input)
			continue
		}
		if w.begin.IsZero() {
			w.begin = run.At
		}
		w.end = run.At
		for _, input := range waiting {
			w.take(input, run.At, running, wanted)
		}
		waiting = waiting[:0]
	}
	for _, job := range running { // order: irrelevant because each is changed by itself
		job.ran = w.end.Sub(job.started)
	}
	return w
}

func (w *work) take(input inputs.Input, at time.Time, running map[api.TaskRef]*job, wanted map[queueKey][]time.Time) {
	switch i := input.(type) {
	case inputs.SetAgent, inputs.RemoveAgent, inputs.SetFramework, inputs.RemoveFramework, inputs.SetRole, inputs.Hold:
		w.world = append(w.world, happening{at, input})
	case inputs.SetDemand:
		key := queueKey{i.Framework, i.Role}
		wanted[key] = want(wanted[key], i.Shapes, at)
	case inputs.Take:
		w.start(i.Claim, at, running, wanted)
	case inputs.Launch:
		w.start(i.Claim, at, running, wanted)
	case inputs.Return:
		ref := api.TaskRef{Framework: i.Claim.Framework, Task: i.Claim.Task}
		if job := running[ref]; job != nil {
			job.ran, job.ended = at.Sub(job.started), true
			delete(running, ref)
		}
	}
}

// want keeps, for each of the wanted tasks, since when it is wanted. New tasks are added at the end, and tasks that are
// no longer wanted are removed from the end.
func want(since []time.Time, shapes []api.Shape, at time.Time) []time.Time {
	const most = 1 << 20 // further ones count as wanted when they start
	var count int64
	for _, shape := range shapes {
		count = min(count+shape.Count, most)
	}
	for int64(len(since)) < count {
		since = append(since, at)
	}
	return since[:count]
}

func (w *work) start(claim allocator.Claim, at time.Time, running map[api.TaskRef]*job, wanted map[queueKey][]time.Time) {
	if claim.Task == "" {
		return // an offer or an executor
	}
	ref := api.TaskRef{Framework: claim.Framework, Task: claim.Task}
	if running[ref] != nil {
		return
	}
	key := queueKey{claim.Framework, claim.Role}
	started := &job{who: key, task: claim.Task, resources: claim.Resources.Plain(), wanted: at, started: at}
	if since := wanted[key]; len(since) > 0 {
		started.wanted, wanted[key] = since[0], since[1:]
	}
	running[ref] = started
	w.jobs = append(w.jobs, started)
}
