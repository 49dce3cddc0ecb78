package manager_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// by returns the context of a call by somebody who may run in the role.
func (c *cluster) by(who string, role api.Role, call string) context.Context {
	return manager.As(c.t.Context(), call, rights.Scope{Who: who, Grants: []rights.Grant{{Verb: rights.Run, Role: role}}})
}

// team returns a service in a role.
func team(name string, role api.Role, count int) jobs.Job {
	job := service(name, "sleep infinity", count)
	job.Role, job.Task.CPUs = role, 0.1
	return job
}

// TestTeamsOfOneManager: each job runs in its role for its owner, one role's quota holds up no other role, and nobody
// does anything to a job of a role that is not his. All of it outlives the manager. (R61)
func TestTeamsOfOneManager(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		h.Limit("eng", api.Scalars(0.1, 1024))
		for who, job := range map[string]jobs.Job{"ann": team("a", "eng/web", 3), "bob": team("b", "ops", 2)} {
			if _, err := c.manager.SubmitJob(c.by(who, job.Role, "SubmitJob"), job); err != nil {
				c.t.Fatal(err)
			}
		}
		running := func(name string) int {
			if status := c.status(name); len(status.SubJobs) > 0 {
				return status.SubJobs[0].Running
			}
			return 0
		}
		quotasHold := func() bool { return running("a") == 1 && running("b") == 2 }
		c.Await("one task of a and all of b", quotasHold)
		c.denies()
		c.run.Kill()
		c.startManager()
		c.Await("the same under the next manager", quotasHold)
		c.denies()
		if a, b := c.status("a"), c.status("b"); a.Role != "eng/web" || a.Owner != "ann" || b.Role != "ops" || b.Owner != "bob" {
			c.t.Errorf("a is of %s in %s, and b of %s in %s", a.Owner, a.Role, b.Owner, b.Role)
		}
		h.Limit("eng", api.Scalars(1, 1024))
		c.Await("all of a", func() bool { return running("a") == 3 })
		list, err := h.Operator().ListTasks(c.t.Context(), &apiv1.ListTasksRequest{})
		if err != nil {
			c.t.Fatal(err)
		}
		owners := map[string]string{"eng/web": "ann", "ops": "bob"}
		for _, task := range list.GetItems() {
			if task.GetOwner() == "" || task.GetOwner() != owners[task.GetRole()] {
				c.t.Errorf("task %s is of %q in %s", task.GetId(), task.GetOwner(), task.GetRole())
			}
		}
		c.changesHands()
	})
}

// denies checks what people may not do to each other's jobs.
func (c *cluster) denies() {
	c.t.Helper()
	m := c.manager
	list, _, err := m.ListJobs(c.by("bob", "ops", "ListJobs"), manager.ListQuery{})
	if err != nil || len(list) != 1 || list[0].Name != "b" {
		c.t.Errorf("bob sees %v, %v", list, err)
	}
	for what, try := range map[string]func() error{
		"see":       func() error { _, err := m.JobStatus(c.by("bob", "ops", "GetJob"), "a"); return err },
		"history":   func() error { _, err := m.JobHistory(c.by("bob", "ops", "GetJobHistory"), "a"); return err },
		"stop":      func() error { return m.StopJob(c.by("bob", "ops", "StopJob"), "a") },
		"delete":    func() error { return m.DeleteJob(c.by("bob", "ops", "DeleteJob"), "a") },
		"roll back": func() error { _, err := m.RollbackJob(c.by("bob", "ops", "RollbackJob"), "a", 1, 0); return err },
		"run now":   func() error { _, err := m.RunNow(c.by("bob", "ops", "RunJobNow"), "a", 1); return err },
		"replace":   func() error { _, err := m.SubmitJob(c.by("bob", "ops", "SubmitJob"), team("a", "ops", 1)); return err },
		"take over": func() error {
			_, err := m.UpdateJob(c.by("bob", "ops", "UpdateJob"), team("a", "ops", 1), 0)
			return err
		},
		"watch": func() error {
			return m.WatchJob(c.by("bob", "ops", "WatchJob"), "a", func(jobs.Status) error { return nil })
		},
		"push": func() error {
			_, err := m.UpdateJob(c.by("bob", "ops", "UpdateJob"), team("b", "eng", 1), 0)
			return err
		},
	} {
		if err := try(); !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "on role eng") {
			c.t.Errorf("bob tries to %s: %v", what, err)
		}
	}
	root := team("b", "ops", 1)
	root.Task.User = "root"
	if _, err := m.UpdateJob(c.by("bob", "ops", "UpdateJob"), root, 0); !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "--user root") {
		c.t.Errorf("bob wants a task that runs as root: %v", err)
	}
}

// changesHands moves a job into another role: its tasks follow, and who may see it no more is told that it is gone.
func (c *cluster) changesHands() {
	c.t.Helper()
	both := rights.Scope{Who: "eve", Grants: []rights.Grant{{Verb: rights.Run, Role: "eng"}, {Verb: rights.Run, Role: "ops"}}}
	if version, err := c.manager.UpdateJob(manager.As(c.t.Context(), "UpdateJob", both), team("a", "", 3), 0); err != nil || version.Number != 1 {
		c.t.Errorf("the same job without a role is %v, %v", version, err)
	}
	over, moved := errors.New("over"), false
	watching := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		watching <- c.manager.WatchJobs(c.by("ann", "eng", "WatchJobs"), "", func(news manager.JobsNews) error {
			for _, one := range news.Changed {
				if one.Name != "a" {
					c.t.Errorf("ann is told of %s", one.Name)
				}
			}
			if !moved {
				moved = true
				close(begun)
			}
			if len(news.Removed) > 0 {
				return over
			}
			return nil
		})
	}()
	<-begun
	if _, err := c.manager.UpdateJob(manager.As(c.t.Context(), "UpdateJob", both), team("a", "ops", 3), 0); err != nil {
		c.t.Error(err)
	}
	if err := <-watching; !errors.Is(err, over) {
		c.t.Errorf("ann's watch ended with %v", err)
	}
	c.Await("all tasks to be of ops", func() bool {
		list, err := c.Operator().ListTasks(c.t.Context(), &apiv1.ListTasksRequest{Role: "ops"})
		n := 0
		for _, task := range list.GetItems() {
			if task.GetOwner() == "eve" && task.GetState() == "RUNNING" {
				n++
			}
		}
		return err == nil && n == 3
	})
}
