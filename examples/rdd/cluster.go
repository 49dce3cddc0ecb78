package rdd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/taskset"
)

// Main lets one binary be driver and executor. If an agent has started it, it works for its driver; otherwise it runs
// drive, which must call Run.
func Main(ctx context.Context, drive func(ctx context.Context) error) error {
	work := Execute(Network{})
	return executor.Main(ctx, func(ctx context.Context, task *executor.Task) error {
		if s, err := unpack[setup](task.Data); err == nil && s.MemoryBytes > 0 {
			debug.SetMemoryLimit(s.MemoryBytes * 9 / 10) // rather collect garbage than exceed it
		}
		return work(ctx, task)
	}, drive)
}

// Run runs a program whose executors run on a cluster.
func Run(ctx context.Context, config Config, program func(ctx context.Context, c *Context) error) error {
	c, err := New(config)
	if err != nil {
		return err
	}
	defer c.Close()
	self, err := executor.Self("rdd")
	if err != nil {
		return err
	}
	self.Resources = api.Scalars(0.1, 32)
	scheduler, err := c.Scheduler(self)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	ran := make(chan error, 1)
	go func() {
		err := framework.Run(ctx, framework.Config{
			Name: c.config.Name, Roles: []api.Role{c.config.Role}, Masters: c.config.Masters,
			ConnectTimeout: 10 * time.Second, FailoverTimeout: 10 * time.Second, TeardownAtEnd: true,
		}, scheduler)
		if err != nil {
			c.failJobs(fmt.Errorf("rdd: the framework has ended: %w", err))
		}
		ran <- err
	}()
	err = program(ctx, c)
	end()
	return errors.Join(err, <-ran)
}

// scheduler keeps an executor running on each of several agents, and tells the context what becomes of them.
type scheduler struct {
	*taskset.Set
	c *Context
}

// Subscribed implements [framework.Subscriber].
func (s *scheduler) Subscribed(ctx context.Context, client *framework.Client) error {
	s.c.mu.Lock()
	s.c.client = client
	s.c.mu.Unlock()
	return s.Set.Subscribed(ctx, client)
}

// Scheduler returns the framework that starts the context's executors; self describes this binary as an executor.
func (c *Context) Scheduler(self *api.Executor) (framework.Scheduler, error) {
	set := taskset.New(taskset.Config{
		Apart: api.ByAgent, Pause: 200 * time.Millisecond,
		Updated: func(_ string, status api.Status) { c.hearStatus(status) },
	})
	task := api.Task{Resources: taskCPUs.Plus(api.Scalars(0, c.config.MemoryMB)), Executor: self, Data: pack(c.makeSetup())}
	return &scheduler{set, c}, set.Scale(context.Background(), "executor", taskset.Item{Task: task}, c.config.Executors)
}

// Execute returns what executors do: a function for executor.Run, and for tests in virtual time.
func Execute(network Network) func(ctx context.Context, task *executor.Task) error {
	return func(ctx context.Context, task *executor.Task) error {
		s, err := unpack[setup](task.Data)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(s.Host); ip == nil || !ip.IsLoopback() {
			s.Host = task.Hostname
		}
		if err := task.MakeSandbox(); err != nil {
			return err
		}
		return serveDriver(ctx, network.filled(), s, plan.Place(task.ID), task.Sandbox)
	}
}

// Local runs a program with executors in this process, without a cluster, to try things out and to test them.
func Local(ctx context.Context, config Config, program func(ctx context.Context, c *Context) error) (err error) {
	c, err := New(config)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rdd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	working, end := context.WithCancel(ctx)
	var executors sync.WaitGroup
	defer func() {
		end()
		c.Close()
		executors.Wait()
	}()
	for i := range c.config.Executors {
		name := fmt.Sprint("executor-", i+1)
		home := filepath.Join(dir, name)
		if err := os.Mkdir(home, 0o700); err != nil {
			return err
		}
		executors.Go(func() { // the program's actions return what goes wrong there
			_ = serveDriver(working, c.config.Network, c.makeSetup(), plan.Place(name), home)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.losePlace(plan.Place(name))
		})
	}
	return program(ctx, c)
}

// makeSetup returns what executors of this context are told.
func (c *Context) makeSetup() setup {
	memory := int64(c.config.MemoryMB * (1 << 20))
	return setup{
		Driver: c.address, Token: c.token, Host: c.config.Host,
		MemoryBytes: memory, CacheBytes: memory * 6 / 10,
	}
}
