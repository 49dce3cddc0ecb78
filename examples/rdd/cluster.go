package rdd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
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
			c.fail(fmt.Errorf("rdd: the framework has ended: %w", err))
		}
		ran <- err
	}()
	err = program(ctx, c)
	end()
	return errors.Join(err, <-ran)
}

// launcher gives tasks to executors, in one of the two modes.
type launcher interface {
	// scheduler returns the framework that starts executors; self describes this binary as an executor.
	scheduler(self *api.Executor) (framework.Scheduler, error)
	// routes adds what executors ask their driver.
	routes(mux *http.ServeMux)
	// handOut runs queued tasks where there is room for them. It is called with the context's lock held, whenever
	// something has changed, and again after the time that it returns; 0: time alone changes nothing.
	handOut() time.Duration
	// giveUp is called for a running task whose result nobody wants any more.
	giveUp(t *task)
}

// routes returns the handler for requests to the driver.
func (c *Context) routes() http.Handler {
	mux := http.NewServeMux()
	c.launcher.routes(mux)
	mux.HandleFunc("/broadcast", c.serveBroadcast)
	return mux
}

// Scheduler returns the framework that starts the context's executors.
func (c *Context) Scheduler(self *api.Executor) (framework.Scheduler, error) {
	return c.launcher.scheduler(self)
}

// stillbornMost is how many executors in a row may end before they have asked for a task.
const stillbornMost = 10

// bury removes an executor that has ended, or of which nobody knows what became of it. If no executor ever gets to ask
// for a task, all jobs are given up.
func (c *Context) bury(name plan.Place, status api.Status) {
	if p := c.places[name]; !c.gone[name] && (p == nil || p.address == "") {
		c.stillborn++
	}
	c.lose(name)
	if c.stillborn > stillbornMost {
		c.giveUp(fmt.Errorf("rdd: executors do not start; the last one is %s on %s: %s", status.State, status.Agent, status.Message))
	}
}

// Execute returns what executors do: a function for executor.Run, and for tests in virtual time.
func Execute(network Network) func(ctx context.Context, task *executor.Task) error {
	here := &workers{ready: map[api.ExecutorID]chan *worker{}}
	return func(ctx context.Context, task *executor.Task) error {
		if len(task.Data) == 0 {
			return here.runTask(ctx, task)
		}
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
		if s.Mode == Fine {
			return here.serve(ctx, network.filled(), s, task)
		}
		return serveDriver(ctx, network.filled(), s, plan.Place(task.ID), task.Sandbox)
	}
}
