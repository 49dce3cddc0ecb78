package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

func logsCommand(who *caller.Caller) *cobra.Command {
	var f logsFlags
	command := &cobra.Command{
		Use:   "logs TASK",
		Short: "Print the output of a task",
		Long: "Print what a task has written to its stdout or stderr. After its end that works for as long as its agent keeps its\n" +
			"folder. Of a very long output the agent keeps the newest part (--output-max of 'tender agent').\n\n" +
			"With --executor, print what the task's executor has written, also if it has crashed. TASK may then be the ID of the\n" +
			"executor itself, as EXECUTOR or FRAMEWORK/EXECUTOR. If several agents have run it, --agent says which one is meant.\n\n" +
			"TASK is FRAMEWORK/TASK, or any unique start of that or of the task's own ID.",
		Args:              caller.Exactly("TASK"),
		ValidArgsFunction: completeIDs(who, "tasks"),
	}
	command.Flags().BoolVarP(&f.follow, "follow", "f", false, "keep printing until the task has ended")
	command.Flags().BoolVar(&f.which.stderr, "stderr", false, "print its stderr instead of its stdout")
	command.Flags().BoolVar(&f.which.both, "both", false, "print its stdout to stdout here, and its stderr to stderr")
	command.Flags().IntVar(&f.lines, "tail", 0, "print only this many lines, the last ones (0 = all)")
	command.Flags().DurationVar(&f.since, "since", 0, "skip what is already there if the output was last written longer ago than this (single lines have no time)")
	command.Flags().BoolVar(&f.executor, "executor", false, "print the output of the task's executor instead of its own")
	command.Flags().StringVar(&f.agent, "agent", "", "`ID` of the agent whose executor is meant")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		task, err := findOutput(ctx, c, args[0], f.agent, f.executor)
		if err != nil {
			return err
		}
		if task.GetAgentId() == "" {
			return fmt.Errorf("%s is %s and was never on an agent, so it has no output", nouns.TaskRef(task), task.GetState())
		}
		return showLogs(ctx, who, c, task, f)
	})
	return command
}

// logsFlags are the flags of `tender logs`.
type logsFlags struct {
	follow, executor bool
	which            streamFlags
	lines            int
	since            time.Duration
	agent            string
}

// streamFlags say which outputs are meant. Default: stdout.
type streamFlags struct{ stderr, both bool }

func (f logsFlags) check() error {
	switch {
	case f.agent != "" && !f.executor:
		return caller.Usagef("--agent says which executor is meant; give it with --executor")
	case f.which.both && f.which.stderr:
		return caller.Usagef("--stderr is in --both; give one of them")
	case f.lines < 0:
		return caller.Usagef("--tail is %d; write how many lines are wanted, or 0 for all", f.lines)
	case f.since < 0:
		return caller.Usagef("--since is %v; write a time such as 10m", f.since)
	}
	return nil
}

// chooseOutputs returns the outputs that are asked for, and where they are written.
func chooseOutputs(who *caller.Caller, f logsFlags) (outputs []*logtail.Output) {
	add := func(stream logtail.Stream, to io.Writer) {
		outputs = append(outputs, &logtail.Output{
			Stream: stream, To: to, Lines: f.lines, Since: f.since,
			Dropped: func(bytes int64) { who.SayUnless(false)("%d bytes of its %s are not kept any more", bytes, stream) },
		})
	}
	if f.which.both || !f.which.stderr {
		add(logtail.Stdout, who.Stdout)
	}
	switch {
	case f.which.both:
		add(logtail.Stderr, who.Stderr)
	case f.which.stderr:
		add(logtail.Stderr, who.Stdout)
	}
	return outputs
}

// taskLogs prints the output of a task.
func taskLogs(ctx context.Context, who *caller.Caller, c *client.Client, task string, follow, stderr bool) error {
	found, err := findOutput(ctx, c, task, "", false)
	if err != nil {
		return err
	}
	return showLogs(ctx, who, c, found, logsFlags{follow: follow, which: streamFlags{stderr: stderr}})
}

func showLogs(ctx context.Context, who *caller.Caller, c *client.Client, task *apiv1.TaskView, f logsFlags) error {
	ref := api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())}
	source := &logtail.Source{
		Task: ref, Outputs: chooseOutputs(who, f), Address: agentAddress(c, task), Executor: f.executor,
		HTTP: &http.Client{Transport: logtail.Transport(c.DialAgent)},
		Ticket: func(ctx context.Context) (string, error) {
			ticket, _, err := c.ReadTicket(ctx, ref, api.AgentID(task.GetAgentId()))
			return ticket, err
		},
	}
	var err error
	if f.follow && !logtail.HasEnded(task) {
		err = source.Follow(ctx, watchEnd(ctx, c, task, ref))
	} else {
		err = source.Rest(ctx)
	}
	if errors.Is(err, logtail.ErrNone) {
		return fmt.Errorf("agent %s has no output of %s: it has not started, or its folder was removed since it ended",
			task.GetAgentId(), source.Task)
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("agent %s does not answer at %s (%w): the output stays on its machine, and can be read when the agent runs again",
			task.GetAgentId(), dial.Addr, dial.Err)
	}
	return err
}

// agentAddress returns a function that asks where the task's agent listens; it may move when it restarts.
func agentAddress(c *client.Client, task *apiv1.TaskView) func(context.Context) (string, error) {
	known := task.GetAgentAddress()
	return func(ctx context.Context) (string, error) {
		if first := known; first != "" {
			known = ""
			return first, nil
		}
		again, err := nouns.Task(ctx, c, nouns.TaskRef(task))
		return again.GetAgentAddress(), err
	}
}

// watchEnd returns a channel that is closed when the task has ended or nobody knows it any more. It stops when ctx
// ends.
func watchEnd(ctx context.Context, c *client.Client, view *apiv1.TaskView, task api.TaskRef) <-chan struct{} {
	over := make(chan struct{})
	list := func(ctx context.Context) ([]*apiv1.TaskView, error) {
		return client.AllReported(ctx, c.Operator().ListTasks, &apiv1.ListTasksRequest{FrameworkId: string(task.Framework), Prefix: task.String(), All: true})
	}
	go func() {
		watch := func(ctx context.Context) iter.Seq2[*apiv1.WatchResponse, error] {
			return client.WatchOver(ctx, c, &apiv1.WatchRequest{Kinds: []string{"task"}, Task: task.String(), EventsOnly: true})
		}
		known, tasks := []*apiv1.TaskView{view}, []api.TaskRef{task}
		_ = logtail.AwaitEnds(ctx, known, list, watch, tasks, func(api.TaskRef, *apiv1.TaskView) { close(over) }) // else ctx has ended
	}()
	return over
}

// findOutput finds the task whose output is asked for, or one that the executor of that name has run.
func findOutput(ctx context.Context, c *client.Client, word, agent string, executor bool) (*apiv1.TaskView, error) {
	if executor {
		task, err := findExecutor(ctx, c, word, agent)
		if task != nil || err != nil {
			return task, err
		}
	}
	return nouns.Task(ctx, c, word)
}

// findExecutor finds the latest task of an executor, which may have ended; nil: no executor has that name. The agent
// keeps what the executor wrote for as long as the folder of one of its tasks.
func findExecutor(ctx context.Context, c *client.Client, word, agent string) (*apiv1.TaskView, error) {
	tasks, err := client.AllReported(ctx, c.Operator().ListTasks, &apiv1.ListTasksRequest{AgentId: agent, All: true})
	if err != nil {
		return nil, err
	}
	latest := make(map[string]*apiv1.TaskView) // by framework, executor and agent
	for _, task := range tasks {
		whole := task.GetFrameworkId() + "/" + task.GetExecutorId()
		named := task.GetFrameworkName() + "/" + task.GetExecutorId()
		if task.GetAgentId() == "" || task.GetExecutorId() != word && whole != word && named != word {
			continue
		}
		where := whole + " on " + task.GetAgentId()
		if known := latest[where]; known == nil || known.GetLaunched().AsTime().Before(task.GetLaunched().AsTime()) {
			latest[where] = task
		}
	}
	places := slices.Sorted(maps.Keys(latest))
	switch len(places) {
	case 0:
		return nil, nil
	case 1:
		return latest[places[0]], nil
	}
	return nil, caller.Usagef("%q is the name of %d executors: %s; write FRAMEWORK/EXECUTOR, and --agent ID", word, len(places),
		strings.Join(places[:min(nouns.NamedMax, len(places))], ", "))
}
