package core

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/framework/jobs"
)

// TestStoppedWhateverHappens: a job that is stopped or deleted ends with all its tasks, even if none of these ends by
// itself. The store then has what the history needs, or nothing.
func TestStoppedWhateverHappens(t *testing.T) {
	task := jobs.Task{Command: "serve", Attempts: 1000}
	kinds := []jobs.Job{
		{Type: jobs.BatchType, Task: task, Batch: &jobs.Batch{Completions: 3}},
		{Type: jobs.ServiceType, Task: task, Service: &jobs.Service{Count: new(3)}},
		{Type: jobs.DAGType, Steps: []jobs.Step{{Name: "a", Task: task}, {Name: "b", After: []string{"a"}, Completions: 2, Task: task}}},
		{Type: jobs.CronType, Task: task, Cron: &jobs.Cron{Schedule: "10s", Overlap: jobs.Allow}},
		{Type: jobs.SystemType, Task: task},
		{Type: jobs.GangType, Task: task, Gang: &jobs.Gang{Members: 3}},
	}
	rapid.Check(t, func(t *rapid.T) {
		job := rapid.SampledFrom(kinds).Draw(t, "job")
		job.Name = "web"
		remove := rapid.Bool().Draw(t, "delete")
		w := newWorld(t, job)
		w.endless = true
		actions := w.actions(nil)
		delete(actions, "update")
		t.Repeat(actions)
		w.offer(2)
		w.step(Asked{Delete: remove, Why: "enough"})
		t.Repeat(actions)
		if w.m.Phase != map[bool]jobs.Phase{false: jobs.Stopping, true: jobs.Deleting}[remove] { // it was not answered, and is lost
			w.step(Asked{Delete: remove, Why: "enough"})
		}
		w.calm()
		if len(w.open()) > 0 {
			t.Fatalf("%v run on:\n%s", w.open(), w.m.Dump())
		}
		want := map[bool]int{false: 2, true: 0}[remove] // the header and a version, or nothing
		if !w.m.Phase.Ended() && !w.m.Gone || len(w.store) != want {
			t.Fatalf("it is %s, and the store has %v", w.m.Phase, slices.Sorted(maps.Keys(w.store)))
		}
	})
}
