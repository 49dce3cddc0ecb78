package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// maintenanceCommand returns the commands that plan drains.
func (a *App) maintenanceCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "maintenance", Short: "Plan when agents will be away",
		Long: "Plan when agents will be away. Until a maintenance window begins, offers of its agents mention it, and frameworks with\n" +
			"tasks or volumes there are asked to leave. When it begins, the agents are drained; when it ends, they are offered again.",
	}
	add(command, "", a.setMaintenance(), a.clearMaintenance(), a.showMaintenance())
	return command
}

func (a *App) setMaintenance() *cobra.Command {
	var start string
	var duration time.Duration
	var command *cobra.Command
	command = &cobra.Command{
		Use: "set AGENT...", Short: "Give agents a maintenance window",
		Long: "Give agents a maintenance window, which replaces any that they have. If one of the agents is unknown, nothing changes.\n" +
			"Say when it begins, how long it lasts, or both: without --start it begins now, without --duration it lasts until you\n" +
			"clear it.",
		Example: "  tender maintenance set agent-1 agent-2 --start 2026-12-01T22:00:00Z --duration 2h\n" +
			"  tender maintenance set agent-3 --start 30m",
		Args: cobra.MatchAll(cobra.MinimumNArgs(1)), ValidArgsFunction: a.completeIDs("agents"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if flags := command.Flags(); !flags.Changed("start") && !flags.Changed("duration") {
				return usagef("say when the window begins, how long it lasts, or both: --start 22:00 --duration 2h; " +
					"to begin now and without an end, --start now; to drain agents without a window, tender drain")
			}
			begins, err := settings.After(start, time.Now())
			if err != nil {
				return usagef("--start: %w", err)
			}
			if duration < 0 {
				return usagef("--duration is %v; write a time such as 2h", duration)
			}
			window := &apiv1.Window{Start: timestamppb.New(begins)}
			if duration > 0 {
				window.Duration = durationpb.New(duration)
			}
			return a.maintain(ctx, c, args, window)
		}),
	}
	command.Flags().StringVar(&start, "start", "now", "when it begins: now, a time from now (30m, 2h), a time of a clock (22:00), or a date such as 2026-12-01T22:00")
	command.Flags().DurationVar(&duration, "duration", 0, "how long it lasts; 0 = until it is cleared")
	return command
}

func (a *App) clearMaintenance() *cobra.Command {
	return &cobra.Command{
		Use: "clear AGENT...", Short: "Remove the maintenance windows of agents, also those that have begun",
		Args: cobra.MatchAll(cobra.MinimumNArgs(1)), ValidArgsFunction: a.completeIDs("agents"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error { return a.maintain(ctx, c, args, nil) }),
	}
}

func (a *App) maintain(ctx context.Context, c *client.Client, names []string, window *apiv1.Window) error {
	answer, err := c.Operator().SetMaintenance(ctx, &apiv1.SetMaintenanceRequest{Window: window, AgentIds: names})
	return a.said(answer, nouns.Agents.WhereListed(err))
}

func (a *App) showMaintenance() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "List the maintenance windows of all agents, and the answers of frameworks",
		Args: exactly(), RunE: a.withClient(a.listMaintenance),
	}
}

func (a *App) listMaintenance(ctx context.Context, c *client.Client, _ []string) error {
	agents, err := nouns.Agents.List(ctx, c, &nouns.Query{})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, item := range agents.Items {
		if agent := item.Message.(*apiv1.AgentView); agent.GetMaintenance() != nil {
			rows = append(rows, maintenanceRow(agent))
		}
	}
	return a.tableOf("maintenance windows", []string{"AGENT", "HOST", "START", "DURATION", "MARKS", "TASKS", "FRAMEWORKS"}, rows)
}

func maintenanceRow(agent *apiv1.AgentView) []string {
	window := agent.GetMaintenance()
	long := "until cleared"
	if window.GetDuration() != nil {
		long = window.GetDuration().AsDuration().String()
	}
	var answers []string
	for _, id := range slices.Sorted(maps.Keys(agent.GetLeaving())) {
		answers = append(answers, id+" "+agent.GetLeaving()[id])
	}
	return []string{
		agent.GetId(), agent.GetHostname(), window.GetStart().AsTime().Format(time.RFC3339), long,
		strings.Join(agent.GetMarks(), ","), nouns.TasksOf(agent), strings.Join(answers, ", "),
	}
}
