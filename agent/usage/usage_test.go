package usage

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// A task is measured by its process group, an executor by its session and the groups of all its tasks.
func TestSample(t *testing.T) {
	x, t1 := api.ExecutorRef{Framework: "f", Executor: "x"}, api.TaskRef{Framework: "f", Task: "t1"}
	t2 := api.TaskRef{Framework: "f", Task: "t2"}
	targets := []core.Target{{Executor: x, Leader: core.Process{PID: 10}, Tasks: []core.TargetTask{
		{Task: "t1", Group: core.Process{PID: 20}}, {Task: "t2", Group: core.Process{PID: 30}},
	}}}
	table := []proc.Stat{
		{PID: 10, Group: 10, Session: 10, Ticks: 100, Resident: 1 << 20},
		{PID: 20, Group: 20, Session: 10, Ticks: 50, Resident: 2 << 20},
		{PID: 21, Group: 20, Session: 10, Ticks: 50, Resident: 4 << 20},
		{PID: 30, Group: 30, Session: 30, Ticks: 10, Resident: 8 << 20}, // it has left the session
		{PID: 31, Group: 30, Session: 30, Ticks: 99, Dead: true},
		{PID: 99, Group: 99, Session: 99, Ticks: 1e6, Resident: 1 << 40},
	}
	s := &Processes{list: func() ([]proc.Stat, error) { return table, nil }}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := s.Sample(at, targets)
	want := api.Usage{At: at, CPUs: time.Second, Mem: 6000, Procs: 2}
	if got := first.Tasks[t1]; got != want {
		t.Errorf("task: %+v, wanted %+v", got, want)
	}
	want = api.Usage{At: at, CPUs: 2100 * time.Millisecond, Mem: 15000, Procs: 4}
	if got := first.Executors[x]; got != want {
		t.Errorf("executor: %+v, wanted %+v", got, want)
	}
	if first.Total != want {
		t.Errorf("total: %+v, wanted %+v", first.Total, want)
	}

	table = []proc.Stat{
		{PID: 10, Group: 10, Session: 10, Ticks: 100, Resident: 1 << 20},
		{PID: 20, Group: 20, Session: 10, Ticks: 200, Resident: 2 << 20}, // 50 of its own, 21 waited for, 100 more
	}
	second := s.Sample(at.Add(2*time.Second), targets)
	if got := second.Tasks[t1].CPU; got != 500 {
		t.Errorf("the task used %v processors", got)
	}
	if got := second.Tasks[t2]; got.Procs != 0 || got.CPU != 0 {
		t.Errorf("the task that is gone: %+v", got)
	}
	if second.Total.CPU != 450 { // 90 ticks more than before, in two seconds
		t.Errorf("the total is %v processors", second.Total.CPU)
	}

	s.list = func() ([]proc.Stat, error) { return nil, errors.New("no table") }
	if failed := s.Sample(at, targets); len(failed.Tasks) != 0 {
		t.Errorf("%+v", failed)
	}
	s.list = func() ([]proc.Stat, error) { t.Error("an idle agent reads the table"); return nil, nil }
	s.Sample(at, nil)
}

// walls holds what the walls of executors and tasks measure, by ID.
type walls map[string]cell.Usage

func (w walls) measure(executor api.ExecutorRef, task api.TaskID) (string, cell.Usage, bool) {
	used, found := w[cmp.Or(string(task), string(executor.Executor))]
	return "", used, found
}

// What has walls is measured by them, and the process table is not read for it.
func TestSampleOfWalls(t *testing.T) {
	x, y := api.ExecutorRef{Framework: "f", Executor: "x"}, api.ExecutorRef{Framework: "f", Executor: "y"}
	t1, t2 := api.TaskRef{Framework: "f", Task: "t1"}, api.TaskRef{Framework: "f", Task: "t2"}
	inside := core.Target{Executor: x, Leader: core.Process{PID: 10}, Tasks: []core.TargetTask{{Task: "t1", Group: core.Process{PID: 20}}}}
	half := core.Target{Executor: y, Leader: core.Process{PID: 40}, Tasks: []core.TargetTask{{Task: "t2", Group: core.Process{PID: 50}}}}
	known := walls{
		"x":  {CPU: 3 * time.Second, Memory: 30 << 20, Processes: 3},
		"t1": {CPU: 2 * time.Second, Memory: 20 << 20, Processes: 2},
		"y":  {CPU: 5 * time.Second, Memory: 50 << 20, Processes: 5},
	}
	s := &Processes{walls: known.measure, list: func() ([]proc.Stat, error) { t.Error("the table was read for what has walls"); return nil, nil }}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := s.Sample(at, []core.Target{inside})
	if got, want := first.Tasks[t1], (api.Usage{At: at, CPUs: 2 * time.Second, Mem: 20_000, Procs: 2}); got != want {
		t.Errorf("task: %+v, wanted %+v", got, want)
	}
	s.list = func() ([]proc.Stat, error) {
		return []proc.Stat{{PID: 40, Group: 40, Session: 40, Ticks: 900}, {PID: 50, Group: 50, Session: 40, Ticks: 100, Resident: 1 << 20}}, nil
	}
	known["t1"] = cell.Usage{CPU: 3 * time.Second, Memory: 20 << 20, Processes: 2}
	second := s.Sample(at.Add(2*time.Second), []core.Target{inside, half})
	if got := second.Tasks[t1]; got.CPU != 500 {
		t.Errorf("task: %+v, wanted half a processor", got)
	}
	if got := second.Executors[y]; got.CPUs != 5*time.Second || got.Procs != 5 {
		t.Errorf("an executor with walls whose task has none: %+v", got)
	}
	if got := second.Tasks[t2]; got.CPUs != time.Second || got.Mem != 1000 {
		t.Errorf("a task without walls: %+v", got)
	}
	if got := second.Total; got.CPUs != 8*time.Second || got.Mem != 80_000 || got.Procs != 8 {
		t.Errorf("total: %+v", got)
	}
}
