package usage

import (
	"errors"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/api"
)

// A task is its group, an executor its session with all its tasks.
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
		{PID: 20, Group: 20, Session: 10, Ticks: 200, Resident: 2 << 20}, // 50 its own, 21 waited for, 100 more
	}
	second := s.Sample(at.Add(2*time.Second), targets)
	if got := second.Tasks[t1].CPU; got != 500 {
		t.Errorf("the task used %v processors", got)
	}
	if got := second.Tasks[t2]; got.Procs != 0 || got.CPU != 0 {
		t.Errorf("the task that is gone: %+v", got)
	}
	if second.Total.CPU != 450 { // 90 ticks more than before in two seconds
		t.Errorf("the total is %v processors", second.Total.CPU)
	}

	s.list = func() ([]proc.Stat, error) { return nil, errors.New("no table") }
	if failed := s.Sample(at, targets); len(failed.Tasks) != 0 {
		t.Errorf("%+v", failed)
	}
	s.list = func() ([]proc.Stat, error) { t.Error("an idle agent reads the table"); return nil, nil }
	s.Sample(at, nil)
}
