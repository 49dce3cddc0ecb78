package frameworktest_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestFullDisks: agents whose disks fill again and again, with and without what they keep in
// reserve, lose and double nothing (R14).
func TestFullDisks(t *testing.T) {
	plan := frameworktest.Plan{Length: 60 * time.Second}
	for i := range 20 {
		kind := []frameworktest.FaultKind{frameworktest.FillDisk, frameworktest.FillDisk, frameworktest.KillAgent, frameworktest.KillLeader}[i%4]
		plan.Faults = append(plan.Faults, frameworktest.Fault{
			At: time.Duration(i) * 2 * time.Second, For: time.Duration(1+i%7) * time.Second, Do: kind, Whom: 1 + i%3, Whom2: i,
		})
	}
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 3, Latency: 50 * time.Millisecond}, func(c *frameworktest.Handle) {
		b := newBatch(200, "sleep 3s")
		f := c.Start(framework.Config{Name: "batch", FailoverTimeout: time.Hour}, b)
		c.Chaos(frameworktest.Chaos{Plan: plan})
		c.AwaitFor(time.Hour, "all jobs to be done", func() bool { return b.left.Load() == 0 })
		c.AwaitSettled()
		if f.Count(api.TaskDropped) == 0 {
			t.Error("no launch was ever refused: the disks were not full")
		}
	})
}
