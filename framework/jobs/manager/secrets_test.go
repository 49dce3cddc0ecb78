package manager_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
)

// TestSecretsOfJobs: each task gets the secrets that its job, or its step, names. A manager whose role may not use a
// secret is told so, and a batch that can't have one fails for that reason.
func TestSecretsOfJobs(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2, Script: playMember}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.SetSecret("default/db", "hunter2")
		c.SetSecret("ops/db", "not ours")
		named := []jobs.Secret{{ID: "default/db", Env: "PASSWORD"}, {ID: "default/db", File: "password"}}
		run := func(seconds int) jobs.Task {
			return jobs.Task{Command: fmt.Sprintf("sleep %d", seconds), CPUs: 0.1, Mem: 32, Given: jobs.Given{Secrets: named}}
		}
		all := []jobs.Job{
			{Name: "batch", Type: jobs.BatchType, Task: run(1000), Batch: &jobs.Batch{Completions: 2}},
			{Name: "service", Type: jobs.ServiceType, Task: run(1000), Service: &jobs.Service{Count: new(2)}},
			{Name: "system", Type: jobs.SystemType, Task: run(1000)},
			{Name: "gang", Type: jobs.GangType, Task: run(1000), Gang: &jobs.Gang{Members: 2}},
			{Name: "dag", Type: jobs.DAGType, Steps: []jobs.Step{{Name: "first", Completions: 2, Task: run(1000)}}},
			{Name: "cron", Type: jobs.CronType, Task: run(50), Cron: &jobs.Cron{Schedule: "* * * * *", Completions: 2}},
		}
		for _, job := range all {
			c.submit(job)
			c.awaitRunning(job.Name, 2)
			for _, task := range c.status(job.Name).Tasks {
				if got, want := c.run.Secrets(task.Task), map[string]string{"PASSWORD": "hunter2", "secrets/password": "hunter2"}; !maps.Equal(got, want) {
					t.Errorf("%s was given %v, want %v", task.Task, got, want)
				}
			}
		}
		foreign := batch("foreign", "true", 1, 1)
		foreign.Task.Secrets = []jobs.Secret{{ID: "ops/db", Env: "PASSWORD"}}
		c.submit(foreign)
		status := c.awaitPhase("foreign", jobs.Failed)
		if notes := fmt.Sprint(status.Notes); !strings.Contains(notes, "TASK_UNAUTHORIZED") || !strings.Contains(notes, "may not use secret ops/db") {
			t.Errorf("the job does not say why it has failed: %s", notes)
		}
	})
}
