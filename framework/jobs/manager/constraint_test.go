package manager_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// TestConstraint: tasks run only on agents that meet their constraint, though offers of others come for another job; one
// that can't be read is refused, and so is each where nobody can judge it.
func TestConstraint(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(h *frameworktest.Handle) {
		c := &cluster{Handle: h, t: h.T()}
		c.manager = manager.New(manager.Config{Judge: constraint.OfOffer})
		c.run = c.Start(config, c.manager)
		c.Await("the manager to be active", c.manager.Active)
		job := batch("some", "sleep 10", 6, 6)
		job.Task.Constraint = `id != "agent-2" && !hostname.startsWith("x")`
		c.submit(batch("any", "sleep 10", 12, 12))
		c.submit(job)
		c.awaitRunning("some", 6)
		for _, task := range c.status("some").Tasks {
			if task.Agent == "agent-2" {
				t.Errorf("%s runs on %s", task.Task, task.Agent)
			}
		}
		job.Name, job.Task.Constraint = "wrong", `rack == "r1"`
		if _, err := c.manager.SubmitJob(c.t.Context(), job); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "task.constraint") {
			t.Errorf("a constraint that can't be read: %v", err)
		}
		if err := (jobs.Job{Task: job.Task}).CheckConstraints(nil); err == nil {
			t.Error("nobody judges it, and it is taken")
		}
	})
}
