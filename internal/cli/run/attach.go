package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/cli/logtail"
	"github.com/tenderhq/tender/internal/pause"
)

// Attached says what to follow. All fields must be set.
type Attached struct {
	Operator       apiv1.OperatorServiceClient
	Agents         Agents
	Framework      api.FrameworkID // of a run that has detached; any other serves as well
	Stdout, Stderr io.Writer       // take the tasks' output
	Say            func(format string, args ...any)
}

const (
	// attachedEvery is how often is asked which tasks have ended.
	attachedEvery = time.Second
	// forgottenAfter answers in a row without a task mean that nobody knows it any more. One may mean that its agent has
	// not reported to a new leader yet.
	forgottenAfter = 15
)

// Attach brings the output of the tasks that a framework has had until now here, from where it begins, and returns when
// all of them have ended and all of it is written. It is no scheduler, so it neither starts nor kills anything: when ctx
// ends the tasks go on. The code is the first that is not 0, in the order in which the tasks are listed.
func Attach(ctx context.Context, config Attached) (code int, err error) {
	f := &follower{config: config, where: newAddresses(config.Operator), tickets: newTickets(config.Agents.Ticket), http: newHTTP(config.Agents.Dial)}
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
	for _, view := range views {
		f.begin(ctx, view)
	}
	err = f.watch(ctx)
	f.copies.Wait()
	for _, task := range f.tasks {
		if code == 0 && task.isOver {
			code = codeOf(task.last)
		}
	}
	return code, errors.Join(err, f.out.err())
}

// follower follows tasks that somebody else has started.
type follower struct {
	config  Attached
	out     *outputs
	where   *addresses
	tickets *tickets
	http    *http.Client
	copies  sync.WaitGroup // of outputs on their way here
	tasks   []*followed
}

// followed is a task of which the output is brought here.
type followed struct {
	id      api.TaskID
	over    chan struct{} // closed when it has ended
	isOver  bool
	last    api.Status // how it has ended
	unknown int        // answers in a row without it
}

func (f *follower) list(ctx context.Context) ([]*apiv1.TaskView, error) {
	views, _, err := client.All(ctx, f.config.Operator.ListTasks, 0, func(token string, limit int32) *apiv1.ListTasksRequest {
		return &apiv1.ListTasksRequest{PageToken: token, Limit: limit, FrameworkId: string(f.config.Framework), All: true}
	})
	return views, err
}

// begin follows one task.
func (f *follower) begin(ctx context.Context, view *apiv1.TaskView) {
	task := &followed{id: api.TaskID(view.GetId()), over: make(chan struct{})}
	f.tasks = append(f.tasks, task)
	f.see(task, view)
	if view.GetAgentId() == "" {
		return // it was never on an agent
	}
	agent := api.AgentID(view.GetAgentId())
	source := &logtail.Source{
		Task: api.TaskRef{Framework: f.config.Framework, Task: task.id}, HTTP: f.http,
		Address: f.where.of(agent), Ticket: f.tickets.of(f.config.Framework, agent),
	}
	f.copies.Go(func() {
		if err := f.out.follow(ctx, source, task.over, f.config.Say); err != nil && ctx.Err() == nil {
			f.config.Say("%s: %v", task.id, err)
		}
	})
}

// watch returns when all tasks have ended, or ctx has.
func (f *follower) watch(ctx context.Context) error {
	for !f.allOver() {
		if !pause.For(ctx, attachedEvery) {
			return ctx.Err()
		}
		views, err := f.list(ctx)
		if err != nil {
			continue // masters that do not answer say nothing of the tasks
		}
		known := make(map[api.TaskID]*apiv1.TaskView, len(views))
		for _, view := range views {
			known[api.TaskID(view.GetId())] = view
		}
		for _, task := range f.tasks {
			f.see(task, known[task.id])
		}
	}
	return nil
}

func (f *follower) allOver() bool {
	for _, task := range f.tasks {
		if !task.isOver {
			return false
		}
	}
	return true
}

// see takes what the leader says of a task; nil: it does not know it.
func (f *follower) see(task *followed, view *apiv1.TaskView) {
	if task.isOver {
		return
	}
	if view == nil {
		if task.unknown++; task.unknown >= forgottenAfter {
			f.end(task, api.Status{State: api.TaskUnknown, Message: "nobody knows it any more"})
		}
		return
	}
	task.unknown = 0
	state, err := api.ParseTaskState(view.GetState())
	if err != nil || !state.Terminal() {
		return
	}
	status := api.Status{State: state, Message: view.GetMessage()}
	if reason, err := api.ParseReason(view.GetReason()); err == nil {
		status.Reason = reason
	}
	if view.ExitCode != nil {
		exit := int(view.GetExitCode())
		status.ExitCode = &exit
	}
	f.end(task, status)
}

// end notes how a task has ended, and says it where the output and the exit code do not.
func (f *follower) end(task *followed, status api.Status) {
	task.isOver, task.last = true, status
	close(task.over)
	if isPlain(status) && (!f.out.prefixed || codeOf(status) == 0) {
		return
	}
	f.config.Say("%s ended %s", task.id, why(status))
}
