package taskset_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestAnAgentWhereItemsFailIsLeft: after three bad ends in a row the next attempt goes to another agent than the latest
// (R62), though the first offer that fits is always taken. Where there is no other it comes again after ten seconds.
func TestAnAgentWhereItemsFailIsLeft(t *testing.T) {
	for agents := 1; agents <= 2; agents++ {
		var on []api.AgentID
		cluster := frameworktest.Cluster{Agents: agents, Script: func(api.Task) frameworktest.Play { return frameworktest.Play{ExitCode: 1} }}
		frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
			worst := func(bin *pack.Bin, _ api.Task) float64 { // always the same agent, as long as it may be
				if bin.Offer.Hostname == "agent-host-1" {
					return 0
				}
				return 1
			}
			set := queue(t, taskset.Config{Rank: worst, Attempts: 5, Pause: time.Second, PauseMax: time.Minute,
				Updated: func(_ string, status api.Status) {
					if status.State == api.TaskFailed {
						on = append(on, status.Agent)
					}
				}}, 1, "x")
			began := c.Now()
			mustEnd(t, c.Start(framework.Config{Name: "batch"}, set))
			took := c.Now() - began
			switch {
			case agents == 1 && took < 20*time.Second:
				t.Errorf("it took %v, and the only agent was to be left twice for ten seconds", took)
			case agents == 2 && (len(on) != 5 || on[3] == on[2] || on[4] == on[3] || took > 20*time.Second):
				t.Errorf("it failed on %v in %v", on, took)
			}
		})
	}
}
