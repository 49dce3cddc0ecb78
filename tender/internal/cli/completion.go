package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

const (
	// completePatience: a shell that waits longer after a Tab feels broken, so there is then no suggestion.
	completePatience = 500 * time.Millisecond
	completeItemsMax = 200
)

func completionCommand(who *caller.Caller) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print completions for bash, zsh or fish",
		Long:  "Print completions for bash, zsh or fish. They know the IDs of the cluster too.",
		Example: "  source <(tender completion bash)\n" +
			"  tender completion zsh > \"${fpath[1]}/_tender\"\n" +
			"  tender completion fish > ~/.config/fish/completions/tender.fish",
		Args:      caller.Exactly("SHELL"),
		ValidArgs: shells,
		RunE: func(command *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return command.Root().GenBashCompletionV2(who.Stdout, true)
			case "zsh":
				return command.Root().GenZshCompletion(who.Stdout)
			case "fish":
				return command.Root().GenFishCompletion(who.Stdout, true)
			}
			return caller.UnknownWord("shell", args[0], shells)
		},
	}
}

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeIDs suggests the IDs of a kind for a command's only argument.
func completeIDs(who *caller.Caller, kindName string) completer {
	return func(command *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return findIDs(command.Context(), who, kindName, start), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeManyIDs suggests the IDs of a kind for each argument, or for a flag.
func completeManyIDs(who *caller.Caller, kindName string) completer {
	return func(command *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		return findIDs(command.Context(), who, kindName, start), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeThings suggests first one of the kinds, then KIND/ID.
func completeThings(who *caller.Caller, kinds []string) completer {
	return func(command *cobra.Command, _ []string, start string) (things []string, _ cobra.ShellCompDirective) {
		kind, id, named := strings.Cut(start, "/")
		if !named {
			for _, known := range kinds {
				if strings.HasPrefix(known, kind) {
					things = append(things, known+"/")
				}
			}
			return things, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		for _, found := range findIDs(command.Context(), who, kind, id) {
			things = append(things, kind+"/"+found)
		}
		return things, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag suggests values for a flag.
func completeFlag(command *cobra.Command, flag string, complete completer) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag is there: only a bug of ours leads here
	}
}

// completeKindAndID suggests first a kind, then its IDs.
func completeKindAndID(ctx context.Context, who *caller.Caller, args []string, start string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		var names []string
		for _, k := range nouns.Kinds() {
			if strings.HasPrefix(k.Name, start) {
				names = append(names, k.Name+"\t"+k.About)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	case 1:
		return findIDs(ctx, who, args[0], start), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeFlags suggests values for the flags that name things.
func completeFlags(who *caller.Caller, command *cobra.Command) {
	for flag, kindName := range map[string]string{"agent": "agents", "framework": "frameworks", "role": "roles"} {
		if command.Flags().Lookup(flag) != nil {
			completeFlag(command, flag, completeManyIDs(who, kindName))
		}
	}
}

// findIDs returns IDs of the cluster, if there is one; an unreachable one suggests nothing.
func findIDs(ctx context.Context, who *caller.Caller, kindName, start string) []string {
	k, err := nouns.Named(kindName)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completePatience)
	defer cancel()
	where, err := who.Cluster(ctx)
	if err != nil {
		return nil
	}
	c, err := client.New(client.Config{Masters: where.Masters, Dial: where.ToMasters(), Patience: completePatience})
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close() }() // a shell needs no error
	l, err := k.List(ctx, c, &nouns.Query{Prefix: start, Limit: completeItemsMax})
	if err != nil {
		return nil
	}
	var ids []string
	for _, item := range l.Items {
		ids = append(ids, item.ID+"\t"+item.Name)
	}
	return ids
}
