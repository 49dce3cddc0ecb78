package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

func killCommand(who *caller.Caller) *cobra.Command {
	var grace time.Duration
	command := &cobra.Command{
		Use:   "kill TASK",
		Short: "End a task",
		Long: "End a task by SIGTERM, and by SIGKILL if it is still there after the grace period. TASK is FRAMEWORK/TASK, the task's\n" +
			"own ID, or its name, and must be complete. If the task is being killed already, --grace can only shorten its grace.\n\n" +
			"The exit code is 0 once the task's agent has stored the kill. It is 3 if the agent is away; the masters then keep the\n" +
			"kill and pass it on when the agent is back.",
		Args:              caller.Exactly("TASK"),
		ValidArgsFunction: completeIDs(who, "tasks"),
	}
	command.Flags().DurationVar(&grace, "grace", 0, "time between SIGTERM and SIGKILL (0 = the task's own grace)")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if grace < 0 {
			return caller.Usagef("--grace is %v; write a time such as 5s", grace)
		}
		request := &apiv1.KillTaskRequest{Task: args[0]}
		if grace > 0 {
			request.Grace = durationpb.New(grace)
		}
		answer, err := c.Operator().KillTask(ctx, request)
		if err != nil {
			return nouns.Tasks.WhereListed(err)
		}
		return tellKilled(who, answer)
	})
	return command
}

func tellKilled(who *caller.Caller, answer *apiv1.KillTaskResponse) error {
	task := answer.GetFrameworkId() + "/" + answer.GetTaskId()
	switch {
	case answer.GetAlready() != "":
		fmt.Fprintf(who.Stdout, "%s had ended before: %s\n", task, answer.GetAlready())
	case answer.GetPending():
		return caller.Failure{Code: caller.Pending, Err: fmt.Errorf("the kill of %s is pending: its agent is away and is told when it is back", task)}
	default:
		fmt.Fprintf(who.Stdout, "%s is being killed\n", task)
	}
	return nil
}

func teardownCommand(who *caller.Caller) *cobra.Command {
	request := &apiv1.RemoveFrameworkRequest{}
	command := &cobra.Command{
		Use:   "teardown FRAMEWORK",
		Short: "Remove a framework and all its tasks for ever",
		Long: "Remove a framework for ever: its tasks are killed, its store is deleted, and its ID is never used again. FRAMEWORK is\n" +
			"its complete ID or name. This can't be undone.\n\n" +
			"A framework whose scheduler is connected is removed only with --force; its scheduler is told and ends. If another\n" +
			"scheduler stands by under the same name, it begins a new framework.",
		Args:              caller.Exactly("FRAMEWORK"),
		ValidArgsFunction: completeIDs(who, "frameworks"),
	}
	command.Flags().BoolVar(&request.Force, "force", false, "remove it even if its scheduler is connected")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		request.FrameworkId = args[0]
		answer, err := c.Operator().RemoveFramework(ctx, request)
		return who.TellAnswer(answer, nouns.Frameworks.WhereListed(err))
	})
	return command
}
