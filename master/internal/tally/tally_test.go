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
	start := Starts{Launched: 1, Ran: 1, Waited: 2 * time.Second}
	if counts.Starts["f1"] != start || counts.JobStarts["web"] != start || counts.Ends[end] != 1 || counts.JobEnds[job] != 1 {
		t.Errorf("starts %v, of jobs %v, ends %v, of jobs %v", counts.Starts, counts.JobStarts, counts.Ends, counts.JobEnds)
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
	if counts := tally.Counts(); len(counts.Starts) != guard.NamesMax+1 || counts.Starts[guard.Others].Launched != 20 || tally.NameOf("f110") != guard.Others || tally.NameOf("f7") != "f7" {
		t.Errorf("%d names, %v others", len(counts.Starts), counts.Starts[guard.Others])
	}
	tally.Count([]change.Record{{Kind: change.Framework, What: change.Removed, Framework: "f7"}})
	launch("late")
	sum := uint64(0)
	counts := tally.Counts()
	for _, n := range counts.Starts {
		sum += n.Launched
	}
	if sum != guard.NamesMax+21 || counts.Starts["late"].Launched != 1 || counts.Starts["f7"].Launched != 0 || counts.Starts[guard.Others].Launched != 21 {
		t.Errorf("%d launches after a removal: %v", sum, counts.Starts)
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

// TestWaits: three tasks are asked for at once and a fourth later; those that were asked for first count as launched
// first. Want without a break counts from its beginning, and what a framework takes back waits no more.
func TestWaits(t *testing.T) {
	tally := New(func(time.Duration) {})
	at := func(second int, r change.Record) {
		r.At, r.Framework, r.Role = began.Add(time.Duration(second)*time.Second), "f1", "web"
		tally.Count([]change.Record{r})
	}
	asks := func(counts ...int64) change.Record {
		r := change.Record{Kind: change.Framework, What: change.Asked}
		for _, count := range counts {
			r.Asked = append(r.Asked, api.Shape{Count: count})
		}
		return r
	}
	task := func(id string, what change.What) change.Record {
		return change.Record{Kind: change.Task, What: what, Task: api.TaskID(id)}
	}
	waited := func(want time.Duration) {
		t.Helper()
		if got := tally.Counts().Starts["f1"].Waited; got != want {
			t.Errorf("they have waited %v and not %v", got, want)
		}
	}
	at(0, asks(2, 1))
	at(5, asks(2, 2))
	at(10, asks(1, 1)) // by an accept, before its launches
	at(10, task("a", change.Launched))
	at(10, task("b", change.Launched))
	at(11, task("a", running))
	at(12, task("b", running))
	waited(23 * time.Second)
	if wants := tally.Counts().WantsSince; wants["f1"] != began {
		t.Errorf("it wants since %v", wants)
	}
	at(20, asks())
	at(20, task("c", change.Launched))
	at(20, task("d", change.Launched))
	at(20, task("e", change.Launched)) // nobody asked for it
	for _, id := range []string{"c", "d", "e"} {
		at(21, task(id, running))
	}
	waited((23 + 21 + 16 + 1) * time.Second)
	if wants := tally.Counts().WantsSince; len(wants) != 0 {
		t.Errorf("it wants since %v", wants)
	}
	for i := range askedMax + 2 {
		at(30+i, asks(int64(i+1)))
	}
	if q := tally.waits[wanting{"f1", "web"}]; len(q.waiting) != askedMax || q.waiting[askedMax-1].count != 3 || tally.Counts().WantsSince["f1"] != began.Add(30*time.Second) {
		t.Errorf("%d times of asking are kept: %+v", len(q.waiting), q)
	}
	at(100, change.Record{Kind: change.Framework, What: change.Removed})
	if len(tally.waits) != 0 {
		t.Errorf("what a removed framework wanted is kept: %v", tally.waits)
	}
}

// TestWhatJobsWant: what a manager tells replaces what it has told before, a job that has always waited keeps its time,
// and nothing is left of a manager that has gone.
func TestWhatJobsWant(t *testing.T) {
	tally := New(func(time.Duration) {})
	tell := func(after time.Duration, wanted map[string]int64) map[string]Wants {
		tally.Count([]change.Record{{Kind: change.Job, Framework: "jobs", At: began.Add(after), Wanted: wanted}})
		return tally.Counts().JobWants
	}
	tell(0, map[string]int64{"web": 2, "sum": 1})
	got := tell(time.Minute, map[string]int64{"web": 5, "late": 3, guard.Others: 7})
	want := map[string]Wants{"web": {5, began}, "late": {3, began.Add(time.Minute)}, guard.Others: {7, began.Add(time.Minute)}}
	if !maps.Equal(got, want) {
		t.Errorf("jobs want %v, not %v", got, want)
	}
	tally.Count([]change.Record{{Kind: change.Framework, What: change.Disconnected, Framework: "jobs"}})
	if left := tally.Counts().JobWants; len(left) > 0 {
		t.Errorf("of a manager that is away is left: %v", left)
	}
}
