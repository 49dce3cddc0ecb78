package meter_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/meter"
)

// twoTasks is an agent whose two tasks have both run for long enough, or have not.
type twoTasks struct{ settled bool }

func (a twoTasks) Settled(api.TaskRef, time.Time) bool              { return a.settled }
func (twoTasks) ExecutorHolds(api.ExecutorRef) (none api.Resources) { return none }

var (
	x     = api.ExecutorRef{Framework: "f1", Executor: "x"}
	start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	whole = api.Scalars(8, 8192)
)

func taskOf(id api.TaskID, asks api.Resources) meter.Task {
	return meter.Task{Ref: api.TaskRef{Framework: "f1", Task: id}, Executor: x, Resources: asks}
}

// metered is a meter that has heard for 20 seconds of two tasks which asked for 2 cpus and 2048 MB each, and use these
// cpus in all.
func metered(a meter.Agent, cpus float64) meter.Meter {
	m := meter.New()
	m.Add(taskOf("t1", api.Scalars(2, 2048)))
	m.Add(taskOf("t2", api.Scalars(2, 2048)))
	for i := range 21 {
		use := api.Usage{CPU: api.MilliOf(cpus), Mem: api.MilliOf(4096)}
		m.Take(protocol.UsageReport{Executors: map[api.ExecutorRef]api.Usage{x: use}}, a, whole, 10, start.Add(time.Duration(i)*time.Second))
	}
	return m
}

// TestGap: the gap is what settled tasks leave unused, less the margin. About tasks that have just begun nothing is
// known.
func TestGap(t *testing.T) {
	now := start.Add(20 * time.Second)
	m := metered(twoTasks{settled: true}, 1)
	if gap := m.Gap(whole, api.Resources{}, now); gap.Scalar("cpus") != api.MilliOf(2.4) { // 4 less a tenth, less 1, in steps of 0.4
		t.Errorf("1 of 4 cpus is used, and the gap is %v", gap)
	}
	m.Distrust(now)
	if gap := m.Gap(whole, api.Resources{}, now.Add(9*time.Second)); !gap.IsZero() {
		t.Errorf("a gap of %v is trusted again after 9 seconds", gap)
	}
	m = metered(twoTasks{}, 1)
	if gap := m.Gap(whole, api.Resources{}, now); !gap.IsZero() {
		t.Errorf("no task has settled, and the gap is %v", gap)
	}
}

// TestBeyond: what is used beyond the requests is told once, and nothing of it once the session is
// over.
func TestBeyond(t *testing.T) {
	m := metered(twoTasks{settled: true}, 6)
	used, changed := m.Tell(whole)
	if !changed || !used.Equal(api.Scalars(2, 0)) {
		t.Fatalf("6 cpus are used where 4 were asked for, and %v is beyond", used)
	}
	if _, changed = m.Tell(whole); changed {
		t.Error("the same is told twice")
	}
	ended := taskOf("t1", api.Scalars(2, 2048))
	told := m.End(ended, twoTasks{settled: true})
	m.Drop(ended)
	if err := m.Check([]meter.Task{taskOf("t2", api.Scalars(2, 2048))}); !told || err != nil {
		t.Errorf("after the end of a task: told %v, %v", told, err)
	}
	if !m.Forget() || !m.Told().IsZero() {
		t.Errorf("the session is over, and %v is beyond", m.Told())
	}
}

// TestWhatPeopleSeeMoves by steps of the agent's total, from what they were shown last, however slowly.
func TestWhatPeopleSeeMoves(t *testing.T) {
	m, total := meter.New(), api.Scalars(4, 1000)
	for i, c := range []struct {
		cpu, mem api.Milli
		moved    bool
	}{
		{100, 0, false}, {150, 20_000, false}, {200, 20_000, true}, {390, 60_000, false}, {390, 70_000, true}, {210, 60_000, false}, {190, 60_000, true},
	} {
		m.Take(protocol.UsageReport{Total: api.Usage{CPU: c.cpu, Mem: c.mem}}, nil, total, 0, time.Unix(int64(i), 0))
		if got := m.Moved(total); got != c.moved {
			t.Errorf("at %d, %d: moved is %v", c.cpu, c.mem, got)
		}
	}
}
