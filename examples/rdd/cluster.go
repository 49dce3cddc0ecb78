package rdd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/taskset"
)

// Main lets one binary be driver and executor: started by an agent it works for its driver, elsewhere it runs
// drive, which is to call Run.
func Main(ctx context.Context, drive func(ctx context.Context) error) error {
	work := Execute(Network{})
	return executor.Main(ctx, func(ctx context.Context, task *executor.Task) error {
		if s, err := unpack[setup](task.Data); err == nil {
			debug.SetMemoryLimit(s.MemoryBytes * 9 / 10) // collect garbage rather than outgrow it
		}
		return work(ctx, task)
	}, drive)
}

// Run runs a program with executors on a cluster.
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
			c.fail(fmt.Errorf("rdd: the framework has ended: %w", err))
		}
		ran <- err
	}()
	err = program(ctx, c)
	end()
	return errors.Join(err, <-ran)
}

// Scheduler is the framework that keeps the context's executors: on each of so many agents one task, which works until
// the driver does not want it any more.
func (c *Context) Scheduler(self *api.Executor) (framework.Scheduler, error) {
	data, err := pack(c.setup())
	if err != nil {
		return nil, err
	}
	set := taskset.New(taskset.Config{
		Apart: api.ByAgent, Pause: 200 * time.Millisecond,
		Updated: func(_ string, status api.Status) { c.hear(status) },
	})
	return set, set.Scale("executor", taskset.Item{Task: api.Task{
		Resources: api.Scalars(float64(c.config.Slots), c.config.MemoryMB), Executor: self, Data: data,
	}}, c.config.Executors)
}

// stillbornMost is how many executors may end before they have asked for a task, with none in between that has.
const stillbornMost = 10

// hear takes an executor for dead when its task has ended, or nobody knows what became of it.
func (c *Context) hear(status api.Status) {
	if !status.State.Terminal() && status.State != api.TaskUnreachable {
		return
	}
	c.mu.Lock()
	place := plan.Place(status.Task)
	if c.places[place] == nil && !c.gone[place] {
		c.stillborn++
	}
	stillborn := c.stillborn
	c.lose(place)
	c.mu.Unlock()
	if stillborn > stillbornMost {
		c.fail(fmt.Errorf("rdd: executors do not start; the last one is %s on %s: %s", status.State, status.Agent, status.Message))
	}
}

// Execute is what executors do: it is for executor.Run, and for tests in virtual time.
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
