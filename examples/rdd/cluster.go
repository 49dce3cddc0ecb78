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

// Main lets one binary be driver and executor: started by an agent it works for its driver, elsewhere it runs
// drive, which is to call Run.
func Main(ctx context.Context, drive func(ctx context.Context) error) error {
	work := Execute(Network{})
	return executor.Main(ctx, func(ctx context.Context, task *executor.Task) error {
		if s, err := unpack[setup](task.Data); err == nil && s.MemoryBytes > 0 {
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

// launcher brings tasks to executors, in one of the two modes.
type launcher interface {
	// scheduler is the framework that has executors begin; self describes this binary as one.
	scheduler(self *api.Executor) (framework.Scheduler, error)
	// routes are what executors ask their driver.
	routes(mux *http.ServeMux)
	// handOut has queued tasks run where there is room for them. It is called, with the context's lock held, whenever
	// something has changed, and after the time that it returns; 0: time alone changes nothing.
	handOut() time.Duration
	// giveUp hears of a task on its way of which nobody wants the result any more.
	giveUp(t *task)
}

// routes are what the driver is asked.
func (c *Context) routes() http.Handler {
	mux := http.NewServeMux()
	c.launcher.routes(mux)
	mux.HandleFunc("/broadcast", c.serveBroadcast)
	return mux
}

// Scheduler is the framework that brings the context's executors.
func (c *Context) Scheduler(self *api.Executor) (framework.Scheduler, error) {
	return c.launcher.scheduler(self)
}

// stillbornMost is how many executors may end before they have asked for a task, with none in between that has.
const stillbornMost = 10

// bury takes out an executor that has ended, or of which nobody knows what became. When none begins, all is given up.
func (c *Context) bury(name plan.Place, status api.Status) {
	if p := c.places[name]; !c.gone[name] && (p == nil || p.address == "") {
		c.stillborn++
	}
	c.lose(name)
	if c.stillborn > stillbornMost {
		c.giveUp(fmt.Errorf("rdd: executors do not start; the last one is %s on %s: %s", status.State, status.Agent, status.Message))
	}
}

// Execute is what executors do: it is for executor.Run, and for tests in virtual time.
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
