package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/past"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func explainCommand(who *caller.Caller) *cobra.Command {
	var agent, at string
	command := &cobra.Command{
		Use:   "explain FRAMEWORK|TASK|JOB [AGENT]",
		Short: "Say why a framework is offered what it is offered, or nothing, or what became of a task, also in the past",
		Long: "Say why a framework is offered what it is offered, or nothing: first for the framework as a whole, then for each agent.\n" +
			"Below that stand the latest decisions: which offers it had, and what became of them.\n\n" +
			"Of a task it says where it is, or how it has ended and why. A task that still waits for an offer is not known to the\n" +
			"masters: ask about its framework. Of a job manager it also says what each job waits for.\n\n" +
			"With --at it tells the whole way instead, from the masters' histories: what was asked for, offered, declined and why,\n" +
			"launched, and each state with its time. That also works for what is no more, for a job, and without a leader.",
		Example: "  tender explain framework-3\n" +
			"  tender explain framework-3 agent-1\n" +
			"  tender explain framework-3/web.0\n" +
			"  tender explain framework-3/web.0 --at 14:03",
		Args:              caller.Between(1, "FRAMEWORK|TASK|JOB", "AGENT"),
		ValidArgsFunction: completeIDs(who, "frameworks"),
	}
	command.Flags().StringVar(&agent, "agent", "", "explain only this agent")
	command.Flags().StringVar(&at, "at", "", "tell how it has come to be as it was then: a time of the clock (14:03), a date (2026-01-02T14:03), or so long ago (1h)")
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	completeFlags(who, command)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if at != "" {
			if len(args) == 2 || agent != "" {
				return caller.Usagef("--at tells the past of a task, a framework or a job on all agents; leave the agent out")
			}
			return tellExplainedPast(ctx, who, c, args[0], at, format.Is(show.AsJSON))
		}
		if len(args) == 2 {
			if agent != "" && agent != args[1] {
				return caller.Usagef("two agents are named, %s and %s; write one", args[1], agent)
			}
			agent = args[1]
		}
		answer, err := c.Operator().Explain(ctx, &apiv1.ExplainRequest{FrameworkId: args[0], AgentId: agent})
		if api.Is(err, api.NotFound) && agent == "" {
			if task, _ := nouns.Task(ctx, c, args[0]); task != nil { // else nothing has this name, and the framework's error says so
				return tellExplainedTask(who, task, format.Is(show.AsJSON))
			}
		}
		switch {
		case err != nil:
			if own := (*api.Error)(nil); errors.As(err, &own) && own.Subject == agent {
				return nouns.Agents.WhereListed(err)
			}
			return nouns.Frameworks.WhereListed(err)
		case format.Is(show.AsJSON):
			return show.JSON(who.Stdout, answer)
		}
		if agent == "" && len(answer.GetFramework()) > 0 {
			if err := tellExplainedJobs(ctx, who, c, answer.GetFrameworkId()); err != nil {
				return err
			}
		}
		return tellExplained(who, answer)
	})
	return command
}

// tellExplainedPast tells how a task, a framework or a job has come to be as it was at a moment.
func tellExplainedPast(ctx context.Context, who *caller.Caller, c *client.Client, word, at string, asJSON bool) error {
	moment, err := settings.Before(at, who.Now())
	if err != nil {
		return caller.Usagef("--at: %w", err)
	}
	for _, of := range pastNames(ctx, c, word) {
		story, err := past.Tell(ctx, c, of, moment)
		switch {
		case err != nil:
			return err
		case len(story.Events) == 0:
			continue
		case asJSON:
			return show.JSON(who.Stdout, &apiv1.ListEventsResponse{Items: story.Events, Gaps: story.Missing()})
		}
		fmt.Fprintln(who.Stdout, show.Clean(story.Head()))
		for _, line := range story.Lines() {
			fmt.Fprintln(who.Stdout, line)
		}
		tellMissingEvents(who, story.Answer, true)
		return nil
	}
	return api.E("explain", api.NotFound, word, fmt.Errorf("no history tells of a task, a framework or a job called %s before %s", word, moment.UTC().Format(time.RFC3339)))
}

// pastNames returns what a word may name in the past: a task, a framework or a job. What is no more has only its ID.
func pastNames(ctx context.Context, c *client.Client, word string) []string {
	if strings.Contains(word, "/") {
		if task, err := nouns.Task(ctx, c, word); err == nil {
			word = nouns.TaskRef(task)
		}
		return []string{"task/" + word}
	}
	framework := word
	if found, err := nouns.Frameworks.Find(ctx, c, word); err == nil {
		framework = found.ID
	}
	return []string{"framework/" + framework, "task/" + word, "job/" + word}
}

// tellExplainedJobs says, if the framework is a job manager, what each of its jobs waits for.
func tellExplainedJobs(ctx context.Context, who *caller.Caller, c *client.Client, framework string) error {
	list, err := apiv1.NewJobServiceClient(c).ListJobs(ctx, &apiv1.ListJobsRequest{})
	if err != nil {
		return nil //nolint:nilerr // the framework was asked about; there may be no job manager, or no right to see its jobs
	}
	for _, job := range list.GetItems() {
		if waits := job.GetWaits(); len(waits) > 0 && job.GetFrameworkId() == framework {
			if _, err := fmt.Fprintf(who.Stdout, "job %s: %s\n", job.GetName(), show.Clean(waits[0])); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellExplainedTask says where a task is, or how it has ended.
func tellExplainedTask(who *caller.Caller, task *apiv1.TaskView, asJSON bool) error {
	if asJSON {
		return show.JSON(who.Stdout, task)
	}
	_, err := fmt.Fprintln(who.Stdout, show.Clean(nouns.TaskSentence(task, who.Now())))
	return err
}

func tellExplained(who *caller.Caller, answer *apiv1.ExplainResponse) error {
	for _, line := range answer.GetFramework() {
		line = show.Clean(line)
		if !strings.HasPrefix(line, answer.GetFrameworkId()+" ") { // some lines begin with their framework
			line = answer.GetFrameworkId() + ": " + line
		}
		if _, err := fmt.Fprintln(who.Stdout, line); err != nil {
			return err
		}
	}
	if err := tellExplainedAgents(who, answer); err != nil {
		return err
	}
	return tellExplainedDecisions(who, answer)
}

func tellExplainedAgents(who *caller.Caller, answer *apiv1.ExplainResponse) error {
	var rows [][]string
	for _, agent := range answer.GetAgents() {
		rows = append(rows, []string{agent.GetAgentId(), agent.GetHostname(), agent.GetWhy()})
	}
	if len(rows) == 0 {
		return nil
	}
	if len(answer.GetFramework()) > 0 {
		fmt.Fprintln(who.Stdout)
	}
	return show.Table(who.Stdout, []string{"AGENT", "HOSTNAME", "WHY"}, rows)
}

func tellExplainedDecisions(who *caller.Caller, answer *apiv1.ExplainResponse) error {
	var rows [][]string
	for _, d := range answer.GetDecisions() {
		what := d.GetOutcome()
		if d.GetWhy() != "" {
			what += ": " + d.GetWhy()
		}
		rows = append(rows, []string{show.Age(who.Now(), d.GetAt()), d.GetOfferId(), d.GetAgentId(), d.GetRole(),
			show.Resources(d.GetResources()), what})
	}
	if len(rows) == 0 {
		return nil
	}
	if len(answer.GetFramework())+len(answer.GetAgents()) > 0 {
		fmt.Fprintln(who.Stdout)
	}
	fmt.Fprintln(who.Stdout, "LAST DECISIONS (newest last)")
	return show.Table(who.Stdout, []string{"AGO", "OFFER", "AGENT", "ROLE", "RESOURCES", "OUTCOME"}, rows)
}
