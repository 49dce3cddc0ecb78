package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/cli/show"
)

// formats of -o.
var formats = []string{"table", "wide", "json", "name"}

func checkFormat(format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return usagef("-o: %w", unknownWord("format", format, known))
}

func (a *App) getCommand() *cobra.Command {
	var q query
	var format string
	command := &cobra.Command{
		Use:   "get KIND [ID]",
		Short: "List masters, agents, frameworks, tasks, offers or roles",
		Long:  "List what the cluster has. ID is the start of an ID, or a whole name.\n\n" + kindsHelp(),
		Example: "  tender get agents\n" +
			"  tender get tasks --all -o wide\n" +
			"  tender get tasks -o json | jq '.items[].state'",
		Args: between(1, "KIND", "ID"),
		ValidArgsFunction: func(command *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			return a.completeKindAndID(command.Context(), args, start)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVarP(&format, "output", "o", "table", "table, wide, json or name")
	flags.StringSliceVar(&q.states, "state", nil, "only in one of these states")
	flags.StringVar(&q.agent, "agent", "", "only on this agent: its ID, its hostname or the start of its ID")
	flags.StringVar(&q.framework, "framework", "", "only of this framework: its ID, its name or the start of its ID")
	flags.StringVar(&q.role, "role", "", "only of this role")
	flags.BoolVarP(&q.all, "all", "a", false, "also tasks that have ended, frameworks that were removed")
	flags.BoolVar(&q.stale, "stale", false, "from any master that answers, as its registry has it: works without a leader")
	flags.IntVar(&q.limit, "limit", 0, "at most so many (0 = all)")
	a.completeFlags(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		k, err := kindNamed(args[0])
		if err != nil {
			return err
		}
		if err := checkQuery(command, k, q, format); err != nil {
			return err
		}
		if len(args) == 2 {
			q.prefix = args[1]
		}
		return a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.get(ctx, c, k, q, format)
		})(command, args)
	}
	return command
}

func kindsHelp() string {
	var rows [][]string
	for _, k := range kinds {
		rows = append(rows, []string{"  " + k.name, k.about})
	}
	var text strings.Builder
	text.WriteString("Kinds:\n")
	for _, row := range rows {
		fmt.Fprintf(&text, "%-13s %s\n", row[0], row[1])
	}
	return strings.TrimRight(text.String(), "\n")
}

// checkQuery refuses what would be ignored.
func checkQuery(command *cobra.Command, k kind, q query, format string) error {
	if err := checkFormat(format, formats...); err != nil {
		return err
	}
	if q.limit < 0 {
		return usagef("--limit is %d; write how many are wanted, or 0 for all", q.limit)
	}
	for _, state := range q.states {
		if !slices.ContainsFunc(k.states, func(known string) bool { return strings.EqualFold(known, state) }) && len(k.states) > 0 {
			return usagef("--state: %w", unknownWord("state", state, k.states))
		}
	}
	for _, name := range []string{"state", "agent", "framework", "role", "all", "stale"} {
		if command.Flags().Changed(name) && !slices.Contains(k.filters, name) {
			return usagef("--%s means nothing for %s", name, k.name)
		}
	}
	return nil
}

func (a *App) get(ctx context.Context, c *client.Client, k kind, q query, format string) error {
	if err := q.resolve(ctx, c); err != nil {
		return err
	}
	l, err := k.list(ctx, c, &q)
	if err != nil {
		return err
	}
	if err := a.print(l, format); err != nil {
		return err
	}
	switch {
	case len(l.items) == 0 && q.prefix != "":
		return k.nobody(q)
	case format == "json" || format == "name":
	case q.index != 0:
		fmt.Fprintf(a.Stderr, "as the registry of one master has it, at index %d; the others may know more\n", q.index)
	case len(l.items) == 0:
		fmt.Fprintf(a.Stderr, "no %s%s\n", k.name, hint(k, q))
	case l.more:
		fmt.Fprintf(a.Stderr, "and more; --limit cut the list\n")
	}
	return nil
}

// resolve turns what people call an agent and a framework into IDs; one that is not there is an error and no empty
// list.
func (q *query) resolve(ctx context.Context, c *client.Client) error {
	for kinds, word := range map[string]*string{"agents": &q.agent, "frameworks": &q.framework} {
		if *word == "" {
			continue
		}
		k, err := kindNamed(kinds)
		if err != nil {
			return err
		}
		found, err := k.find(ctx, c, *word)
		if err != nil {
			return err
		}
		*word = found.id
	}
	return nil
}

// hint says what may be missing from an empty list.
func hint(k kind, q query) string {
	if k.name == "tasks" && !q.all {
		return " that live; --all also shows those that have ended"
	}
	return ""
}

func (a *App) print(l *listing, format string) error {
	switch format {
	case "json":
		return show.JSON(a.Stdout, l.message)
	case "name":
		var text strings.Builder
		for _, item := range l.items {
			text.WriteString(item.id + "\n")
		}
		_, err := io.WriteString(a.Stdout, text.String())
		return err
	}
	if len(l.items) == 0 {
		return nil
	}
	wide := format == "wide"
	rows := make([][]string, len(l.items))
	for i, item := range l.items {
		rows[i] = item.cells(wide, a.Now())
	}
	return show.Table(a.Stdout, l.header(wide), rows)
}
