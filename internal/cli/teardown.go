package cli

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/cli/nouns"
)

func (a *App) teardownCommand() *cobra.Command {
	request := &apiv1.RemoveFrameworkRequest{}
	command := &cobra.Command{
		Use:   "teardown FRAMEWORK",
		Short: "Remove a framework with all its tasks, for ever",
		Long: "Remove a framework with all its tasks, for ever: tasks are killed, its store is deleted, its ID is never used again.\n" +
			"FRAMEWORK is its whole ID or its whole name. This can't be undone.\n\n" +
			"One whose scheduler is connected is left alone without --force; with it the scheduler is told, and ends. The next\n" +
			"one that stands by under its name begins a new framework.",
		Args:              exactly("FRAMEWORK"),
		ValidArgsFunction: a.completeIDs("frameworks"),
	}
	command.Flags().BoolVar(&request.Force, "force", false, "also when its scheduler is connected")
	command.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		request.FrameworkId = args[0]
		answer, err := c.Operator().RemoveFramework(ctx, request)
		if err != nil {
			return nouns.Frameworks.WhereListed(err)
		}
		return a.said(answer)
	})
	return command
}
