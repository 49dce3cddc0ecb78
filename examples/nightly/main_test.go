package main

import (
	"maps"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// The active instance is killed in the middle; the next one goes on, and no job is done twice.
func TestNightlyGoesOn(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		set, err := newSet()
		if err != nil {
			t.Fatal(err)
		}
		first := c.Start(config, set)
		first.AwaitCount(8, api.TaskFinished)
		if set, err = newSet(); err != nil {
			t.Fatal(err)
		}
		next := c.Start(config, set)
		first.Kill()
		if err := next.Await(); err != nil {
			t.Fatal(err)
		}
		finished := map[api.TaskID]bool{} // the last that the first heard, the next may hear too
		for _, f := range []*frameworktest.Framework{first, next} {
			for task, state := range f.States() {
				finished[task] = finished[task] || state == api.TaskFinished
			}
		}
		maps.DeleteFunc(finished, func(_ api.TaskID, well bool) bool { return !well })
		if len(finished) != 20 {
			t.Errorf("%d tasks did the 20 jobs", len(finished))
		}
	})
}
