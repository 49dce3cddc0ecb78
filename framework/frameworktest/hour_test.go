package frameworktest_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
	"github.com/tenderhq/tender/internal/testing/processor"
)

// TestHour is a simulated hour of a large cluster with a busy framework: two tasks of about five minutes
// on every agent, replaced as they end. AGENTS, LENGTH and HEARTBEAT in the environment change it. The long
// form has 1,000 agents, six or seven tasks a second and a heartbeat every 10 s; with the race detector, under
// which that would take an hour itself, it has 100. Figures are in docs/performance.md.
func TestHour(t *testing.T) {
	agents, length, heartbeat := 20, 10*time.Minute, 5*time.Second
	switch long := os.Getenv("TENDER_TEST_LONG") != ""; {
	case long && raced:
		agents, length = 100, time.Hour
	case long:
		agents, length, heartbeat = 1000, time.Hour, 10*time.Second
	}
	if text := os.Getenv("AGENTS"); text != "" {
		if _, err := fmt.Sscan(text, &agents); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]*time.Duration{"LENGTH": &length, "HEARTBEAT": &heartbeat} {
		if text := os.Getenv(name); text != "" {
			var err error
			if *value, err = time.ParseDuration(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	hour(t, agents, length, heartbeat)
	t.Logf("all in all %v of real time", time.Since(began).Round(time.Millisecond))
}

func hour(t *testing.T, agents int, length, heartbeat time.Duration) {
	cluster := frameworktest.Cluster{Agents: agents, Heartbeat: heartbeat, Machine: frameworktest.Machine{Resources: api.Scalars(1, 1024)}}
	began := processor.Own(t)
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "busy"}, busy(t, 2*agents))
		f.AwaitCount(2*agents, api.TaskRunning)
		busy := processor.Own(t)
		c.Advance(length)
		ended := f.Count(api.TaskFinished)
		if least := 2 * agents * int(length/(340*time.Second)); ended < least {
			t.Errorf("%d tasks have ended, it should be at least %d", ended, least)
		}
		took := processor.Own(t) - busy
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		t.Logf("%d agents, a heartbeat every %v: %v of processor time until all were busy, %v for %v with %d ends of tasks (%.1f a second), %d µs for a second of an agent; %d MB of heap",
			agents, heartbeat, busy-began, took, length, ended, float64(ended)/length.Seconds(),
			took.Microseconds()/int64(agents)/int64(length/time.Second), memory.HeapAlloc>>20)
	})
}

// busy keeps this many tasks of about five minutes running: when one ends, the next one is wanted.
func busy(t *testing.T, tasks int) *taskset.Set {
	var set *taskset.Set
	added := 0
	add := func() {
		task := api.Task{Resources: api.Scalars(0.5, 128), Command: &api.Command{Shell: fmt.Sprintf("sleep %d", 270+added%61)}}
		if err := set.Add(t.Context(), taskset.Item{ID: fmt.Sprintf("job-%d", added), Task: task}); err != nil {
			t.Error(err)
		}
		added++
	}
	set = taskset.New(taskset.Config{Ended: func(taskset.Outcome) { add() }})
	for range tasks {
		add()
	}
	return set
}
