package main

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// running lists the tasks that run.
func running(c *frameworktest.Handle) (tasks []api.TaskID) {
	for _, agent := range c.Agents() {
		for _, task := range agent.Tasks() {
			tasks = append(tasks, task.Task)
		}
	}
	slices.Sort(tasks)
	return tasks
}

// workers counts the workers that run.
func workers(c *frameworktest.Handle) (n int) {
	for _, task := range running(c) {
		if strings.HasPrefix(string(task), "worker-") {
			n++
		}
	}
	return n
}

// TestThePoolFollowsTheWork: more workers at once, fewer after a while, not more than allowed; another instance takes all
// of them over; and a scheduler that is elsewhere gets new ones.
func TestThePoolFollowsTheWork(t *testing.T) {
	resources, err := api.ParseResources("cpus:4;mem:4096;ports:[31600-31699]")
	if err != nil {
		t.Fatal(err)
	}
	cluster := frameworktest.Cluster{Masters: 3, Agents: 2, Machine: frameworktest.Machine{Resources: resources}, Script: func(api.Task) frameworktest.Play { return frameworktest.Play{Forever: true} }}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		var wanted atomic.Int64
		start := func() *frameworktest.Framework {
			p := newPool("", 5, func(context.Context, taskset.Task) (int, error) { return int(wanted.Load()), nil })
			go p.adapt(c.T().Context())
			return c.Start(configOf(), p.set)
		}
		first := start()
		first.AwaitCount(1, api.TaskRunning)
		second := start()
		c.Advance(30 * time.Second)
		if n := workers(c); n != 0 {
			t.Errorf("%d workers have nothing to do", n)
		}
		wanted.Store(3)
		c.AwaitFor(10*time.Second, "three workers", func() bool { return workers(c) == 3 })
		wanted.Store(9)
		c.AwaitFor(10*time.Second, "five workers, and no more", func() bool { return workers(c) == 5 })
		wanted.Store(1)
		c.Advance(5 * time.Second)
		wanted.Store(5)
		c.Advance(5 * time.Second)
		if n := workers(c); n != 5 {
			t.Errorf("%d workers were left after a short pause", n)
		}

		before := running(c)
		first.Kill()
		c.Leader().Kill()
		c.Advance(time.Minute)
		if now := running(c); !slices.Equal(before, now) {
			t.Errorf("of %v after the takeover %v run", before, now)
		}
		wanted.Store(2)
		c.AwaitFor(time.Minute, "two workers", func() bool { return workers(c) == 2 })

		before = running(c)
		second.EndTask(before[0], frameworktest.Play{ExitCode: 1}) // the scheduler; its successor has another port, or not
		c.AwaitFor(time.Minute, "a new scheduler with two workers", func() bool {
			now := running(c)
			return len(now) == 3 && now[0] != before[0]
		})
	})
}
