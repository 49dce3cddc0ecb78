package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/jobcmd"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// listCommand makes the command `list` of a noun that has a command of its own.
func listCommand(who *caller.Caller, k nouns.Kind, q *nouns.Query, short string) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: short, Args: caller.Exactly()}
	format := show.FormatFlag(command.Flags(), show.AsTable, show.AsJSON)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		return showList(ctx, who, c, k, *q, format)
	})
	return command
}

// writeTable prints a table, and says so if it is empty.
func writeTable(who *caller.Caller, kind string, header []string, rows [][]string) error {
	err := show.Table(who.Stdout, header, rows)
	if err == nil && len(rows) == 0 {
		_, err = fmt.Fprintf(who.Stderr, "no %s\n", kind)
	}
	return err
}

func getCommand(who *caller.Caller) *cobra.Command {
	var q nouns.Query
	command := &cobra.Command{
		Use:   "get KIND [ID]",
		Short: "List masters, agents, frameworks, tasks, jobs, offers, roles, ...",
		Long: "List what the cluster has. ID is a complete ID or name, or the start of an ID. With -w, executors and operations are\n" +
			"listed again for what happens to them, once a second at most; jobs are followed at their managers.\n\n" + kindsHelp(),
		Example: "  tender get agents\n" +
			"  tender get tasks --all -o wide\n" +
			"  tender get tasks -w\n" +
			"  tender get tasks -o json | jq '.items[].state'",
		Args: caller.Between(1, "KIND", "ID"),
		ValidArgsFunction: func(command *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			return completeKindAndID(command.Context(), who, args, start)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	format := show.FormatFlag(flags, show.AsTable, show.AsWide, show.AsJSON, show.AsName)
	flags.StringSliceVar(&q.States, "state", nil, "list only those in one of these states")
	flags.StringVar(&q.Agent, "agent", "", "list only those on this agent: its ID, its hostname or the start of its ID")
	flags.StringVar(&q.Framework, "framework", "", "list only those of this framework: its ID, its name or the start of its ID")
	flags.StringVar(&q.Role, "role", "", "list only those of this role")
	flags.BoolVarP(&q.All, "all", "a", false, "list also tasks that have ended, frameworks that were removed and principals that were revoked")
	flags.BoolVar(&q.Stale, "stale", false, "accept an older answer, from the registry of any master; works without a leader")
	flags.IntVar(&q.Limit, "limit", 0, "list at most this many (0 = all)")
	watch := flags.BoolP("watch", "w", false, "go on with a row for each change (with -o json: a change on each line), until interrupted")
	completeFlags(who, command)
	command.RunE = func(command *cobra.Command, args []string) error {
		k, err := nouns.Named(args[0])
		if err != nil {
			return err
		}
		if err := checkQuery(command, k, q); err != nil {
			return err
		}
		if len(args) == 2 {
			q.Prefix = args[1]
		}
		for _, name := range []string{"all", "stale", "limit"} {
			if *watch && command.Flags().Changed(name) {
				return caller.Usagef("--%s means nothing with --watch, which shows what there is and then what changes", name)
			}
		}
		return who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if *watch {
				return watchList(ctx, who, c, k, q, format)
			}
			return showList(ctx, who, c, k, q, format)
		})(command, args)
	}
	return command
}

func kindsHelp() string {
	var rows [][]string
	for _, k := range nouns.Kinds() {
		rows = append(rows, []string{"  " + k.Name, k.About})
	}
	var text strings.Builder
	text.WriteString("Kinds:\n")
	for _, row := range rows {
		fmt.Fprintf(&text, "%-13s %s\n", row[0], row[1])
	}
	return strings.TrimRight(text.String(), "\n")
}

// checkQuery refuses flags that would have no effect.
func checkQuery(command *cobra.Command, k nouns.Kind, q nouns.Query) error {
	if err := saidEmpty(command.Flags()); err != nil {
		return caller.Usage(err)
	}
	if q.Limit < 0 {
		return caller.Usagef("--limit is %d; write how many are wanted, or 0 for all", q.Limit)
	}
	for _, state := range q.States {
		if !slices.ContainsFunc(k.States, func(known string) bool { return strings.EqualFold(known, state) }) && len(k.States) > 0 {
			return caller.Usagef("--state: %w", caller.UnknownWord("state", state, k.States))
		}
	}
	for _, name := range []string{"state", "agent", "framework", "role", "all", "stale"} {
		if command.Flags().Changed(name) && !slices.Contains(k.Filters, name) {
			return caller.Usagef("--%s means nothing for %s", name, k.Name)
		}
	}
	return nil
}

// watchList shows a kind, and then what changes of it.
func watchList(ctx context.Context, who *caller.Caller, c *client.Client, k nouns.Kind, q nouns.Query, format *show.Format) error {
	if err := q.Resolve(ctx, c); err != nil {
		return err
	}
	w := nouns.Watcher{
		Kind: k, Query: &q, Out: who.Stdout, Format: format.String(), Now: who.Now,
		Say: func(sentence string) { fmt.Fprintf(who.Stderr, "tender: %s\n", sentence) },
	}
	if k.Name == nouns.Jobs.Name {
		return jobcmd.Rows(ctx, who, c, &w)
	}
	return w.Watch(ctx, c)
}

func showList(ctx context.Context, who *caller.Caller, c *client.Client, k nouns.Kind, q nouns.Query, format *show.Format) error {
	if err := q.Resolve(ctx, c); err != nil {
		return err
	}
	l, err := k.List(ctx, c, &q)
	if err != nil {
		return err
	}
	if len(l.Items) == 0 && q.Role != "" {
		if err := roleIsKnown(ctx, c, q.Role); err != nil {
			return err
		}
	}
	if err := l.Print(who.Stdout, format.String(), who.Now()); err != nil {
		return err
	}
	switch {
	case len(l.Items) == 0 && q.Prefix != "":
		return cmp.Or(q.Incomplete, k.Nobody(q))
	case format.Is(show.AsJSON) || format.Is(show.AsName):
	case q.Index != 0:
		fmt.Fprintf(who.Stderr, "from the registry of one master, at index %d; others may know more\n", q.Index)
	case q.Incomplete != nil:
		fmt.Fprintf(who.Stderr, "there may be more %s: %v\n", k.Name, caller.Cause(q.Incomplete))
	case len(l.Items) == 0:
		fmt.Fprintf(who.Stderr, "no %s%s\n", k.Name, hint(k, q))
	case l.More:
		fmt.Fprintf(who.Stderr, "there are more; --limit has cut the list\n")
	}
	return nil
}

// hint says what may be missing from an empty list.
func hint(k nouns.Kind, q nouns.Query) string {
	if k.Name == "tasks" && !q.All {
		return " that live; --all also shows those that have ended"
	}
	return ""
}
