package tally

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/internal/guard"
)

var began = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)

// TestALife: a launch, a start after two seconds, an end for a reason, and what became of offers.
func TestALife(t *testing.T) {
	var starts []time.Duration
	tally := New(func(took time.Duration) { starts = append(starts, took) })
	task := change.Record{Kind: change.Task, Framework: "f1", Task: "t1", Job: "web", At: began}
	launched, runs, ended := task, task, task
	launched.What = change.Launched
	runs.What, runs.At = change.StateOfTask(api.TaskRunning), began.Add(2*time.Second)
	ended.What, ended.Reason = change.StateOfTask(api.TaskKilled), api.ReasonPreempted
	tally.Count([]change.Record{
		{Kind: change.Offer, What: change.Made, Framework: "f1"}, {Kind: change.Offer, What: "declined", Framework: "f1"}, launched, runs, runs, ended,
	})
	counts := tally.Counts()
	if len(starts) != 1 || starts[0] != 2*time.Second {
		t.Errorf("it has started after %v", starts)
	}
	if want := map[Offers]uint64{{"f1", change.Made}: 1, {"f1", "declined"}: 1}; !maps.Equal(counts.Offers, want) {
		t.Errorf("offers: %v", counts.Offers)
	}
	end := Ends{"f1", api.TaskKilled, api.ReasonPreempted}
	job := Ends{"web", api.TaskKilled, api.ReasonPreempted}
	if counts.Launches["f1"] != 1 || counts.Ends[end] != 1 || counts.JobEnds[job] != 1 {
		t.Errorf("launches %v, ends %v, of jobs %v", counts.Launches, counts.Ends, counts.JobEnds)
	}
}

// TestNamesAreBounded: frameworks beyond the bound are counted together, and one that is removed gives its place away
// without any sum falling.
func TestNamesAreBounded(t *testing.T) {
	tally := New(func(time.Duration) {})
	launch := func(framework string) {
		tally.Count([]change.Record{{Kind: change.Task, What: change.Launched, Framework: api.FrameworkID(framework), Task: "t"}})
	}
	for i := range guard.NamesMax + 20 {
		launch(fmt.Sprintf("f%d", i))
	}
	if counts := tally.Counts(); len(counts.Launches) != guard.NamesMax+1 || counts.Launches[guard.Others] != 20 || tally.NameOf("f110") != guard.Others || tally.NameOf("f7") != "f7" {
		t.Errorf("%d names, %d others", len(counts.Launches), counts.Launches[guard.Others])
	}
	tally.Count([]change.Record{{Kind: change.Framework, What: change.Removed, Framework: "f7"}})
	launch("late")
	sum := uint64(0)
	counts := tally.Counts()
	for _, n := range counts.Launches {
		sum += n
	}
	if sum != guard.NamesMax+21 || counts.Launches["late"] != 1 || counts.Launches["f7"] != 0 || counts.Launches[guard.Others] != 21 {
		t.Errorf("%d launches after a removal: %v", sum, counts.Launches)
	}
}

// TestATaskThatNeverRunsIsForgotten: what was launched and lost is not kept.
func TestATaskThatNeverRunsIsForgotten(t *testing.T) {
	tally := New(func(took time.Duration) { t.Errorf("it starts after %v", took) })
	tally.Count([]change.Record{
		{Kind: change.Task, What: change.Launched, Framework: "f", Task: "t"},
		{Kind: change.Task, What: change.StateOfTask(api.TaskDropped), Framework: "f", Task: "t"},
		{Kind: change.Task, What: change.StateOfTask(api.TaskRunning), Framework: "f", Task: "t"},
	})
	if len(tally.began) != 0 {
		t.Errorf("%d launches are kept", len(tally.began))
	}
}
