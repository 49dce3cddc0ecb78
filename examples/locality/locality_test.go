package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

var svg = flag.String("svg", "", "`file` for the chart of TestShapeOfThePaper: docs/locality.svg")

// measure runs the jobs on a whole cluster in virtual time.
func measure(t *testing.T, agents int, wait time.Duration, w workload) *experiment {
	var e *experiment
	cluster := frameworktest.Cluster{Agents: agents, Machine: frameworktest.Machine{Resources: api.Scalars(2, 1024)}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		var ids []api.AgentID
		for i := range agents {
			ids = append(ids, c.Agent(i+1).ID())
		}
		e = newExperiment(wait, w.jobs(ids, 1))
		if err := c.Start(framework.Config{Name: "locality"}, e).Await(); err != nil {
			t.Fatal(err)
		}
		if err := e.Err(); err != nil {
			t.Fatal(err)
		}
	})
	return e
}

// TestShapeOfThePaper: a short wait makes nearly all tasks local and costs little, on
// agents of two slots that are never quite enough. With -svg there are 100 of them, 1,600
// tasks and all waits (make locality); without, a third of that and only the ends.
func TestShapeOfThePaper(t *testing.T) {
	w := workload{small: 120, smallEvery: 500 * time.Millisecond, large: 1, taskTime: 10 * time.Second}
	agents, waits := 30, []time.Duration{0, 15 * time.Second} // the longest task takes as long
	if *svg != "" {
		w = workload{small: 400, smallEvery: 150 * time.Millisecond, large: 4, largeEvery: 5 * time.Second, taskTime: 10 * time.Second}
		agents, waits = 100, []time.Duration{0, time.Second, 5 * time.Second, 10 * time.Second}
	}
	var measured []measurement
	for _, wait := range waits {
		e := measure(t, agents, wait, w)
		var line strings.Builder
		e.print(&line, wait)
		t.Log(strings.TrimSpace(line.String()))
		measured = append(measured, measurement{wait, e.small, e.large, e.Locality()})
	}
	if hits := measured[0].all.HitRate(); hits >= 0.40 {
		t.Errorf("%.1f %% are local without waiting; want under 40 %%", 100*hits)
	}
	best := measured[len(measured)-1].all
	if best.HitRate() <= 0.95 || best.MeanWait() >= 5*time.Second {
		t.Errorf("%.1f %% are local, mean wait %v; want over 95 %% under 5 s", 100*best.HitRate(), best.MeanWait())
	}
	for i := range measured[1:] {
		if less, more := measured[i], measured[i+1]; more.all.HitRate() < less.all.HitRate() {
			t.Errorf("waiting %v brings fewer hits (%.3f) than waiting %v (%.3f)", more.wait, more.all.HitRate(), less.wait, less.all.HitRate())
		}
	}
	if *svg != "" {
		if err := draw(*svg, measured); err != nil {
			t.Fatal(err)
		}
	}
}
