package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
)

// Attached says which tasks to follow. All fields must be set.
type Attached struct {
	Operator       apiv1.OperatorServiceClient
	Watch          func(context.Context, *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error]
	Agents         Agents
	Framework      api.FrameworkID // that of a run that has detached; any other framework works as well
	Stdout, Stderr io.Writer       // where the tasks' output is written
	Say            func(format string, args ...any)
}

// Attach copies the output of all tasks that a framework has had so far, from where it begins, and returns when all of
// them have ended and all output was written. It is no scheduler, so it neither starts nor kills anything: when ctx
// ends, the tasks go on. The code is the first one that is not 0, in the order in which the tasks are listed.
func Attach(ctx context.Context, config Attached) (code int, err error) {
	f := &follower{
		config: config, where: newAddresses(config.Operator), tickets: newTickets(config.Agents.Ticket), http: newHTTP(config.Agents.Dial),
		over: map[api.TaskRef]chan struct{}{}, codes: map[api.TaskRef]int{},
	}
	defer f.http.CloseIdleConnections()
	views, err := f.list(ctx)
	if err != nil {
		return 0, err
	}
	if len(views) == 0 {
		return 0, fmt.Errorf("%s has no tasks, and none that its agents remember", config.Framework)
	}
	f.out = newOutputs(config.Stdout, config.Stderr, len(views) > 1)
	f.config.Say = f.out.aside(config.Say)
	var tasks []api.TaskRef
	for _, view := range views {
		tasks = append(tasks, f.begin(ctx, view))
	}
	err = logtail.AwaitEnds(ctx, views, f.list, f.watch, tasks, f.end)
	f.copies.Wait()
	for _, task := range tasks {
		if code == 0 {
			code = f.codes[task]
		}
	}
	return code, errors.Join(err, f.out.err())
}

// follower follows tasks that another process has started.
type follower struct {
	config  Attached
	out     *outputs
	where   *addresses
	tickets *tickets
	http    *http.Client
	copies  sync.WaitGroup                // goroutines that copy outputs
	over    map[api.TaskRef]chan struct{} // closed when the task has ended
	codes   map[api.TaskRef]int           // exit codes of tasks that have ended
}

func (f *follower) list(ctx context.Context) ([]*apiv1.TaskView, error) {
	return client.AllReported(ctx, f.config.Operator.ListTasks, &apiv1.ListTasksRequest{FrameworkId: string(f.config.Framework), All: true})
}

func (f *follower) watch(ctx context.Context) iter.Seq2[*apiv1.WatchResponse, error] {
	return f.config.Watch(ctx, &apiv1.WatchRequest{Kinds: []string{"task"}, FrameworkId: string(f.config.Framework), EventsOnly: true})
}

// begin begins to follow one task.
func (f *follower) begin(ctx context.Context, view *apiv1.TaskView) api.TaskRef {
	task, over := api.TaskRef{Framework: f.config.Framework, Task: api.TaskID(view.GetId())}, make(chan struct{})
	f.over[task] = over
	if view.GetAgentId() == "" {
		return task // it never was on an agent
	}
	agent := api.AgentID(view.GetAgentId())
	source := &logtail.Source{Task: task, HTTP: f.http, Address: f.where.of(agent, task.Framework), Ticket: f.tickets.of(task.Framework, agent)}
	f.copies.Go(func() {
		if err := f.out.follow(ctx, source, over, f.config.Say); err != nil && ctx.Err() == nil {
			f.config.Say("%s: %v", task.Task, err)
		}
	})
	return task
}

// end notes how a task has ended, and reports it if output and exit code do not show it.
func (f *follower) end(task api.TaskRef, view *apiv1.TaskView) {
	status := statusOf(view)
	f.codes[task] = codeOf(status)
	close(f.over[task])
	if isPlain(status) && (!f.out.prefixed || codeOf(status) == 0) {
		return
	}
	f.config.Say("%s ended %s", task.Task, why(status))
}

// statusOf converts a task's end as a list shows it; for nil, nobody knows the task.
func statusOf(view *apiv1.TaskView) api.Status {
	if view == nil {
		return api.Status{State: api.TaskUnknown, Message: "nobody knows it any more"}
	}
	status := api.Status{Message: view.GetMessage()}
	// The names of states and reasons in a list can be parsed.
	status.State, _ = api.ParseTaskState(view.GetState())
	status.Reason, _ = api.ParseReason(view.GetReason())
	if view.ExitCode != nil {
		exit := int(view.GetExitCode())
		status.ExitCode = &exit
	}
	return status
}
