package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/tools/devcluster"
)

// load is a scheduler that runs so many equal tasks, at most a window of them at once.
type load struct {
	task   func(n int) api.Task // without ID and resources
	total  int
	before int // of these run before the clock starts
	window int

	client  *framework.Client
	next    int
	flying  int
	wanted  int // stated and not launched yet
	done    int
	dropped int       // and tried again
	started time.Time // first launch, or the end of what runs before
	cpuThen float64   // processor time of this process and its children at that time, in seconds
	took    time.Duration
	ending

	onState func(task api.TaskID, state api.TaskState)
}

// taskResources are so small that the agents never are what limits.
var taskResources = api.Scalars(0.01, 1)

// runLoad runs the tasks as a framework of its own.
func runLoad(ctx context.Context, cluster *devcluster.Cluster, l *load) error {
	ctx, l.finish = context.WithCancel(ctx)
	defer l.finish()
	config := framework.Config{
		Name: "bench", Masters: strings.Split(cluster.MasterAddresses(), ","), TeardownAtEnd: true,
	}
	if err := framework.Run(ctx, config, l); err != nil {
		return err
	}
	if l.failure == nil && l.done < l.total {
		return fmt.Errorf("interrupted after %d of %d tasks", l.done, l.total)
	}
	return l.failure
}

// Subscribed states the first demand.
func (l *load) Subscribed(_ context.Context, client *framework.Client) error {
	l.client = client
	return l.demand(min(l.window, l.total))
}

// demand says how many more tasks may start now.
func (l *load) demand(count int) error {
	l.wanted = count
	demand := api.Demand{}
	if count > 0 {
		demand.Shapes = []api.Shape{{Resources: taskResources, Count: int64(count)}}
	}
	return l.client.Demand(demand)
}

func (l *load) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if l.started.IsZero() && l.before == 0 {
		l.startClock()
	}
	answers := make([]api.Answer, 0, len(offers))
	for _, offer := range offers {
		tasks := l.pack(offer.Resources)
		answer := api.Launch(offer, tasks...) // without tasks it declines
		answer.Filter = api.NoFilter          // what ends next is wanted at once: a filter would stall the measurement itself
		answers = append(answers, answer)
	}
	if l.wanted == 0 {
		l.fail(l.demand(0))
	}
	return answers
}

func (l *load) startClock() { l.started, l.cpuThen = time.Now(), cpuOf(os.Getpid()) }

func (l *load) pack(free api.Resources) []api.Task {
	var tasks []api.Task
	fit := int(free.Scalar("cpus") / taskResources.Scalar("cpus"))
	for l.wanted > 0 && len(tasks) < fit {
		task := l.task(l.next)
		task.ID = api.TaskID(fmt.Sprintf("t%d", l.next))
		task.Resources = taskResources
		tasks = append(tasks, task)
		l.next++
		l.flying++
		l.wanted--
	}
	return tasks
}

func (l *load) Update(_ context.Context, status api.Status) error {
	if l.onState != nil {
		l.onState(status.Task, status.State)
	}
	if !status.State.Terminal() {
		return nil
	}
	l.flying--
	switch status.State {
	case api.TaskFinished:
		if l.done++; l.done == l.before {
			l.startClock()
		}
	case api.TaskDropped: // never started: as a real framework would, try again
		l.dropped++
	default:
		l.fail(fmt.Errorf("%s is %s %s: %s", status.Task, status.State, status.Reason, status.Message))
	}
	l.goOn()
	return nil
}

// goOn asks for more when half of the window has drained.
func (l *load) goOn() {
	left := l.total - l.done - l.flying
	switch {
	case l.done == l.total:
		l.took = time.Since(l.started)
		l.finish()
	case l.wanted == 0 && l.flying <= l.window/2 && left > 0:
		l.fail(l.demand(min(l.window-l.flying, left)))
	}
}

// ending is how a scheduler of ours ends its run.
type ending struct {
	failure error // the first
	finish  context.CancelFunc
}

func (e *ending) fail(err error) {
	if err != nil && e.failure == nil {
		e.failure = err
		e.finish()
	}
}
