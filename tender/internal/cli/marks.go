package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

// markCommands returns the commands that put marks on agents and take them away.
func markCommands(who *caller.Caller) []*cobra.Command {
	gone := markCommand(who, "gone", apiv1.AgentAction_MARK_GONE, "Declare that an agent never comes back",
		"Declare that an agent will never come back. Its tasks end as GONE_BY_OPERATOR, and frameworks may start them elsewhere.\n"+
			"If it does come back, it is told to end everything and to register as a new agent. This can't be undone.")
	gone.Flags().Bool("force", false, "even if the agent is alive")
	remove := markCommand(who, "remove", apiv1.AgentAction_REMOVE, "Forget an agent that is gone or drained",
		"Forget an agent that is gone or drained. This can't be undone.")
	remove.Flags().Bool("force", false, "even if it still has tasks")
	return []*cobra.Command{
		drainCommand(who),
		markCommand(who, "deactivate", apiv1.AgentAction_DEACTIVATE, "Offer nothing of an agent any more; its tasks go on",
			"Stop offering an agent. Its tasks go on. 'tender reactivate' takes it back into service."),
		markCommand(who, "reactivate", apiv1.AgentAction_REACTIVATE, "Take back drain and deactivate", "Take back drain and deactivate."),
		gone, remove,
	}
}

func markCommand(who *caller.Caller, name string, action apiv1.AgentAction, short, long string) *cobra.Command {
	command := &cobra.Command{
		Use: name + " AGENT", Short: short, Long: long + "\n\nAGENT is its complete ID or hostname.",
		Args: caller.Exactly("AGENT"), ValidArgsFunction: completeIDs(who, "agents"),
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		request := &apiv1.MarkAgentRequest{Action: action}
		if err := markFlags(command, request); err != nil {
			return err
		}
		return who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return markAgent(ctx, who, c, args[0], request)
		})(command, args)
	}
	return command
}

// markAgent marks one agent and prints the answer.
func markAgent(ctx context.Context, who *caller.Caller, c *client.Client, agent string, request *apiv1.MarkAgentRequest) error {
	request.AgentId = agent
	answer, err := c.Operator().MarkAgent(ctx, request)
	return who.TellAnswer(answer, nouns.Agents.WhereListed(err))
}

func markFlags(command *cobra.Command, request *apiv1.MarkAgentRequest) error {
	var grace time.Duration
	var err, err2 error
	if command.Flags().Lookup("grace") != nil {
		grace, err = command.Flags().GetDuration("grace")
	}
	if command.Flags().Lookup("force") != nil {
		request.Force, err2 = command.Flags().GetBool("force")
	}
	switch {
	case grace < 0:
		return caller.Usagef("--grace is %v; write a time such as 30s", grace)
	case grace > 0:
		request.Grace = durationpb.New(grace)
	}
	return errors.Join(err, err2)
}
