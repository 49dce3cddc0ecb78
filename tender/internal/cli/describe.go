package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func describeCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "describe KIND ID",
		Short: "Show everything known about one agent, framework, task, job, role, ...",
		Long:  "Show everything that is known about one thing of a kind that 'tender get' lists, and what has happened to it lately.",
		Example: "  tender describe agent agent-1\n" +
			"  tender describe task framework-3/hello.0",
		Args: caller.Exactly("KIND", "ID"),
		ValidArgsFunction: func(command *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			return completeKindAndID(command.Context(), who, args, start)
		},
	}
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		k, err := nouns.Named(args[0])
		if err != nil {
			return err
		}
		if k.Name == nouns.Jobs.Name { // its manager knows it, and the masters what has happened
			return jobsEnv(who).Describe(ctx, c, args[1], format)
		}
		found, err := k.Find(ctx, c, args[1])
		switch {
		case err != nil:
			return err
		case format.Is(show.AsJSON):
			return show.JSON(who.Stdout, found.Message)
		}
		return nouns.Describe(ctx, c, who.Stdout, who.Now(), found)
	})
	return command
}
