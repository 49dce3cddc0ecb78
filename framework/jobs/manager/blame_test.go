package manager_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
)

// TestTheExecutorForCommandsDies: it is a part of Tender. Its end uses up no attempt and makes no version bad (R59).
func TestTheExecutorForCommandsDies(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		once := batch("once", "sleep 100", 1, 1)
		once.Task.Attempts = 1
		c.submit(once)
		c.submit(service("web", "sleep infinity", 1))
		c.awaitRunning("once", 1)
		c.awaitRunning("web", 1)
		changed := service("web", "sleep infinity; true", 1)
		changed.Service.Proof = jobs.Duration(time.Hour)
		if _, err := c.manager.UpdateJob(c.t.Context(), changed, 0); err != nil {
			t.Fatal(err)
		}
		c.AwaitFor(time.Minute, "the changed task to run", func() bool {
			tasks := c.status("web").Tasks
			return len(tasks) == 1 && tasks[0].Version == 2 && tasks[0].State == api.TaskRunning
		})
		executors := map[api.AgentID]api.TaskID{} // each with one of its tasks: the others end with it
		for _, name := range []string{"once", "web"} {
			task := c.status(name).Tasks[0]
			executors[task.Agent] = task.Task
		}
		for _, task := range executors { // order: irrelevant because each is on another agent
			c.run.EndTask(task, frameworktest.Play{Crash: true})
		}
		c.awaitPhase("once", jobs.Succeeded)
		c.awaitRunning("web", 1)
		status := c.status("web")
		if status.Version != 2 || status.Roll == nil || status.Roll.Back {
			t.Errorf("the change went back: %+v", status)
		}
		if one := c.status("once").SubJobs[0]; one.Failed != 0 || one.Done != 1 {
			t.Errorf("the batch: %+v", one)
		}
	})
}
