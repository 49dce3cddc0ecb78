package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/draining"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

// drainFlags are the flags that only drain has.
type drainFlags struct {
	wait    bool
	atATime int
	allOf   []string
}

func drainCommand(who *caller.Caller) *cobra.Command {
	var f drainFlags
	command := &cobra.Command{
		Use:   "drain AGENT...",
		Short: "Stop offering agents, and end their tasks",
		Long: "Offer nothing of agents any more, and end their tasks, each with its own grace. An agent without tasks gets the mark\n" +
			"'drained'; 'tender reactivate' takes it back into service.\n\n" +
			"With --wait the command returns when all agents are empty, and prints a line that begins with the agent's ID for each.\n" +
			"With --at-a-time N no more than N agents are drained at the same time; the next begins when one is empty. The quorum\n" +
			"remembers the marks, but only this command knows what comes next: after Ctrl-C the agents that were begun go on, no\n" +
			"further agent is begun, and the same command continues from there.\n\n" +
			"AGENT is its complete ID or hostname.",
		Example: "  tender drain agent-3\n" +
			"  tender drain --wait --grace 1m host-1 host-2\n" +
			"  tender drain --at-a-time 2 --all-of zone=z1",
		ValidArgsFunction: completeManyIDs(who, "agents"),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.Duration("grace", 0, "longest time that a task gets to end (0 = each task's own grace)")
	flags.Bool("force", false, "do not wait until frameworks that are away have been told of the end of their tasks")
	flags.BoolVar(&f.wait, "wait", false, "return only when all of the agents are empty")
	flags.IntVar(&f.atATime, "at-a-time", 0, "drain at most this many at the same time, and wait (0 = all at once)")
	flags.StringArrayVar(&f.allOf, "all-of", nil, "instead of AGENT: all agents with this attribute, zone or region, as KEY=VALUE; given twice, agents with both")
	command.RunE = func(command *cobra.Command, args []string) error {
		request := &apiv1.MarkAgentRequest{Action: apiv1.AgentAction_DRAIN}
		if err := markFlags(command, request); err != nil {
			return err
		}
		if err := f.check(args); err != nil {
			return err
		}
		return who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 1 && !f.waits() {
				return markAgent(ctx, who, c, args[0], request)
			}
			return drainAgents(ctx, who, c, f, args, request)
		})(command, args)
	}
	return command
}

func (f drainFlags) waits() bool { return f.wait || f.atATime > 0 }

func (f drainFlags) check(args []string) error {
	switch {
	case len(args) == 0 && len(f.allOf) == 0:
		return caller.Usagef("'tender drain' needs AGENT; write 'tender drain AGENT...', or --all-of KEY=VALUE")
	case len(args) > 0 && len(f.allOf) > 0:
		return caller.Usagef("name agents or say --all-of %s, not both", f.allOf[0])
	case f.atATime < 0:
		return caller.Usagef("--at-a-time is %d; write how many, such as 1", f.atATime)
	}
	for _, pair := range f.allOf {
		if key, _, both := strings.Cut(pair, "="); !both || key == "" {
			return caller.Usagef("--all-of is %q; write KEY=VALUE, such as zone=z1", pair)
		}
	}
	return nil
}

// drainAgents drains all named agents or, if one of them is not known, none.
func drainAgents(ctx context.Context, who *caller.Caller, c *client.Client, f drainFlags, args []string, request *apiv1.MarkAgentRequest) error {
	all, _, err := client.All(ctx, c.Operator().ListAgents, 0, &apiv1.ListRequest{})
	if err != nil {
		return err
	}
	agents, err := draining.Choose(all, args, f.allOf)
	if err != nil {
		return nouns.Agents.WhereListed(err)
	}
	if !f.waits() {
		for _, agent := range agents {
			if err := markAgent(ctx, who, c, agent.GetId(), request); err != nil {
				return err
			}
		}
		return nil
	}
	return draining.Run(ctx, draining.Config{
		Operator: c.Operator(), Watch: c.Watch, Agents: agents, Request: request, AtATime: f.atATime,
		Say: func(sentence string) { fmt.Fprintln(who.Stderr, "tender: "+sentence) },
		Drained: func(agent *apiv1.AgentView, done, all int) {
			fmt.Fprintf(who.Stdout, "%s is drained, %d of %d; host %s\n", agent.GetId(), done, all, agent.GetHostname())
		},
	})
}
