package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// maintenanceCommand returns the commands that plan drains.
func maintenanceCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use: "maintenance", Short: "Plan when agents will be away",
		Long: "Plan when agents will be away. Until a maintenance window begins, offers of its agents mention it, and frameworks with\n" +
			"tasks or volumes there are asked to leave. When it begins, the agents are drained; when it ends, they are offered again.",
	}
	add(command, "", setMaintenance(who), clearMaintenance(who), showMaintenance(who))
	return command
}

func setMaintenance(who *caller.Caller) *cobra.Command {
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
		Args: cobra.MatchAll(cobra.MinimumNArgs(1)), ValidArgsFunction: completeIDs(who, "agents"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if flags := command.Flags(); !flags.Changed("start") && !flags.Changed("duration") {
				return caller.Usagef("say when the window begins, how long it lasts, or both: --start 22:00 --duration 2h; " +
					"to begin now and without an end, --start now; to drain agents without a window, tender drain")
			}
			begins, err := settings.After(start, time.Now())
			if err != nil {
				return caller.Usagef("--start: %w", err)
			}
			if duration < 0 {
				return caller.Usagef("--duration is %v; write a time such as 2h", duration)
			}
			return maintainAgents(ctx, who, c, args, &apiv1.Window{Start: timestamppb.New(begins), Duration: wire.DurationToProto(duration)})
		}),
	}
	command.Flags().StringVar(&start, "start", "now", "when it begins: now, a time from now (30m, 2h), a time of a clock (22:00), or a date such as 2026-12-01T22:00")
	command.Flags().DurationVar(&duration, "duration", 0, "how long it lasts; 0 = until it is cleared")
	return command
}

func clearMaintenance(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use: "clear AGENT...", Short: "Remove the maintenance windows of agents, also those that have begun",
		Args: cobra.MatchAll(cobra.MinimumNArgs(1)), ValidArgsFunction: completeIDs(who, "agents"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return maintainAgents(ctx, who, c, args, nil)
		}),
	}
}

func maintainAgents(ctx context.Context, who *caller.Caller, c *client.Client, names []string, window *apiv1.Window) error {
	answer, err := c.Operator().SetMaintenance(ctx, &apiv1.SetMaintenanceRequest{Window: window, AgentIds: names})
	return who.TellAnswer(answer, nouns.Agents.WhereListed(err))
}

func showMaintenance(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "List the maintenance windows of all agents, and the answers of frameworks",
		Args: caller.Exactly(), RunE: who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error { return listMaintenance(ctx, who, c) }),
	}
}

func listMaintenance(ctx context.Context, who *caller.Caller, c *client.Client) error {
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
	return writeTable(who, "maintenance windows", []string{"AGENT", "HOST", "START", "DURATION", "MARKS", "TASKS", "FRAMEWORKS"}, rows)
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
