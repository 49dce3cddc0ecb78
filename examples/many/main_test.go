package main

import (
	"context"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// Two agents of 4 cpus have room for 16 tasks at once.
func TestMany(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		ctx, end := context.WithCancel(context.Background())
		f := c.StartContext(ctx, framework.Config{Name: "many", TeardownAtEnd: true}, newMany(30, end))
		f.AwaitCount(16, api.TaskRunning)
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		f.ExpectCount(30, api.TaskFinished)
	})
}

// The leading master dies, and an agent's machine with its tasks: they are GONE, and tried again.
func TestManyLosesAnAgent(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2, TombstoneAfter: 10 * time.Second}, func(c *frameworktest.Handle) {
		ctx, end := context.WithCancel(context.Background())
		f := c.StartContext(ctx, framework.Config{Name: "many", TeardownAtEnd: true}, newMany(30, end))
		f.AwaitCount(16, api.TaskRunning)
		c.Leader().Kill()
		c.Agent(1).Reboot()
		c.Agent(1).Start()
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		f.ExpectCount(30, api.TaskFinished)
	})
}
