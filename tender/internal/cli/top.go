package cli

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
	"github.com/tenderhq/tender/tender/internal/cli/top"
)

func (a *App) topCommand() *cobra.Command {
	config := top.Config{Now: a.Now, Look: a.look, Kind: top.Kinds()[0]}
	var once bool
	var kinds []string
	for _, k := range top.Kinds() {
		kinds = append(kinds, k.Name)
	}
	command := &cobra.Command{
		Use:   "top [KIND]",
		Short: "Show agents, roles, frameworks, jobs and tasks live on a terminal",
		Long: "Show the cluster on a terminal, as it is: " + strings.Join(kinds, ", ") + ". KIND is the table that is shown first.\n" +
			"Press ? for the keys: sort, search, and see what is known of a thing, its events, its output and why it waits.\n\n" +
			"Where the output is no terminal, or one that can't move its cursor (TERM=dumb), the table is printed once, whole, as\n" +
			"with --once. With -o json everything is printed once, by kind, each thing as 'tender get -o json' shows it.",
		Example: "  tender top\n" +
			"  tender top tasks --filter web --sort since\n" +
			"  tender top agents --once | head\n" +
			"  tender top -o json | jq '.agents | length'",
		Args: caller.Between(0, "KIND"), ValidArgs: kinds,
	}
	flags := command.Flags()
	flags.StringVar(&config.Sort, "sort", "", "title of the `column` by which the table is sorted (default: the first one)")
	flags.StringVar(&config.Filter, "filter", "", "show only rows with this `text` in a cell")
	flags.BoolVar(&once, "once", false, "print the table once")
	format := show.FormatFlag(flags, show.AsTable, show.AsJSON)
	command.RunE = func(command *cobra.Command, args []string) error {
		ctx := command.Context()
		if len(args) > 0 {
			kind, err := nouns.Named(args[0])
			if err != nil {
				return err
			}
			config.Kind = kind
		}
		if err := config.Check(); err != nil {
			return caller.Usage(err)
		}
		where, err := a.Cluster(ctx)
		if err != nil {
			return err
		}
		config.Dial = func(waiting func(error)) (*client.Client, error) { return caller.ClientOf(where, waiting) }
		out, toTerminal := a.Stdout.(*os.File)
		kind, _ := a.Lookup("TERM")
		switch {
		case format.Is(show.AsJSON):
			return top.JSON(ctx, config, a.Stdout)
		case once || !toTerminal || !term.IsTerminal(int(out.Fd())) || kind == "dumb" || kind == "":
			return top.Once(ctx, config, a.Stdout)
		}
		return top.Run(ctx, config, a.Stdin, out)
	}
	return command
}

// lookBytesMax is how much of what a command writes is kept.
const lookBytesMax = 1 << 20

// look runs another command as this one was run, and returns what it has written, or its last part.
func (a *App) look(ctx context.Context, args ...string) string {
	var text bytes.Buffer
	other := &App{Caller: caller.Caller{Stdin: strings.NewReader(""), Stdout: &text, Stderr: &text, Lookup: a.Lookup, Now: a.Now, Dial: a.Dial}}
	if len(a.Masters) > 0 {
		args = append(args, "--master", strings.Join(a.Masters, ","))
	}
	if a.Context != "" {
		args = append(args, "--context", a.Context)
	}
	other.Run(ctx, args)
	return string(text.Bytes()[max(0, text.Len()-lookBytesMax):])
}
