package core_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry/registrytest"
	"github.com/tenderhq/tender/master/view"
)

// BenchmarkLargeFailover: a leader begins with 50,000 agents and 1,000 frameworks, none of which comes back.
func BenchmarkLargeFailover(b *testing.B) {
	state := registrytest.Large(50_000, 1_000)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []string{"begin", "tombstone", "list", "allocate"} {
		b.Run(step, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := core.New(core.Config{Master: "m1"}, state, api.Term{Number: 1}, policyNamed("fairshare")(), now)
				b.StartTimer()
				switch step {
				case "begin":
					core.New(core.Config{Master: "m1"}, state, api.Term{Number: 1}, policyNamed("fairshare")(), now)
				case "tombstone":
					at := now.Add(31 * time.Second)
					c.Step(core.Event{At: at, What: core.Woken{}})
				case "list":
					view.PageOf(c.View(), view.AgentList, view.Query{Limit: 1})
				case "allocate":
					c.Allocate(now)
				}
			}
		})
	}
}
