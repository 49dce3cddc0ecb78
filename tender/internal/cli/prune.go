package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

func pruneCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use:   "prune AGENT...",
		Short: "Remove the images that no task uses from agents",
		Long: "Remove the images that no task uses from agents, and say how much room that has made. Agents do so by themselves when\n" +
			"their disks have little room, or when a new image needs it.\n\n" +
			"AGENT is its complete ID or hostname, or the start of its ID.",
		Example:           "  tender prune agent-3",
		ValidArgsFunction: completeManyIDs(who, "agents"),
		Args:              cobra.MinimumNArgs(1),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, word := range args {
				found, err := nouns.Agents.Find(ctx, c, word)
				if err != nil {
					return err
				}
				ticket, err := c.ExecTicket(ctx, api.TaskRef{}, api.AgentID(found.ID))
				if err != nil {
					return err
				}
				answer, err := c.PostToAgent(ctx, found.Message.(*apiv1.AgentView).GetAddress(), "/v1/images/prune", ticket)
				if err != nil {
					return err
				}
				var pruned struct{ Bytes int64 }
				if err := json.Unmarshal(answer.Body, &pruned); err != nil {
					return err
				}
				fmt.Fprintf(who.Stdout, "%s: %d MB\n", found.ID, (pruned.Bytes+1<<20-1)>>20)
			}
			return nil
		}),
	}
}
