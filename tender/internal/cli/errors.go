package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

const exitCodes = `What the exit code of tender means:

  0        done
  1        failed; stderr says what went wrong, where, and what would be right
  2        wrong usage; for 'tender run' also: no agent is large enough for the task
  3        for 'tender kill', and 'tender run' after Ctrl-C: the agent, or every master, is
           away; the tasks end when it is back; for 'tender verify': nothing is broken as far
           as could be seen, and something could not be looked at
  130      stopped by Ctrl-C (128 + the number of the signal)

'tender run' exits with the code of its task: its own, or 128 + the number of the
signal that ended it. With several instances it is the first code that is not 0, in
the order of the instances.`

// exitCodesTopic is the help topic `tender help exit-codes`.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What exit codes mean", Long: exitCodes}
}

// rightValues say what is right for flags of a type.
var rightValues = map[string]string{
	"stringToString": "NAME=VALUE", "int": "a whole number, such as 3", "duration": "a time such as 5s, 10m or 1h30m",
}

// flagError turns an error of the flag parser into a sentence that suggests the closest flag.
func flagError(command *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if short := missing.GetSpecifiedShortnames(); short != "" && strings.Trim(short, "0123456789.") == "" {
			return caller.Usagef("'%s' has no flag -%s; a negative number stands behind '--', such as '%s ... -- -%s'",
				command.CommandPath(), short, command.CommandPath(), short)
		} else if meant := flagsBeginning(command, short); meant != "" {
			return caller.Usagef("'%s' has no flag -%s; did you mean %s?", command.CommandPath(), missing.GetSpecifiedName(), meant)
		} else if short != "" {
			return caller.Usagef("'%s' has no flag -%s; see '%s --help'", command.CommandPath(), missing.GetSpecifiedName(), command.CommandPath())
		}
		return unknownFlag(command, missing.GetSpecifiedName())
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		if right := rightValues[value.GetFlag().Value.Type()]; right != "" {
			return caller.Usagef("--%s: %q is wrong; write %s", value.GetFlag().Name, value.GetValue(), right)
		}
		if value.GetFlag().Value.Type() == "format" {
			return caller.Usagef("--%s: %w", value.GetFlag().Name, caller.Cause(value))
		}
		return caller.Usagef("--%s: %q is wrong: %w", value.GetFlag().Name, value.GetValue(), caller.Cause(value))
	}
	return caller.Usagef("%w; see '%s --help'", err, command.CommandPath())
}

// flagNames returns the names of the flags that a command shows.
func flagNames(command *cobra.Command) (names []string) {
	visit := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	command.Flags().VisitAll(visit)
	command.InheritedFlags().VisitAll(visit)
	return names
}

// flagsBeginning returns those that begin with the letter, such as "--detach or --disk".
func flagsBeginning(command *cobra.Command, letter string) string {
	var meant []string
	for _, name := range flagNames(command) {
		if len(letter) == 1 && strings.HasPrefix(name, letter) {
			meant = append(meant, "--"+name)
		}
	}
	slices.Sort(meant)
	return strings.Join(slices.Compact(meant), " or ")
}

func unknownFlag(command *cobra.Command, name string) error {
	if closest := words.Closest(name, flagNames(command)); closest != "" {
		return caller.Usagef("'%s' has no flag --%s; did you mean --%s?", command.CommandPath(), name, closest)
	}
	return caller.Usagef("'%s' has no flag --%s; see '%s --help'", command.CommandPath(), name, command.CommandPath())
}

func commandNames(command *cobra.Command) []string {
	var names []string
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	slices.Sort(names)
	return names
}

func noSuchCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return caller.UnknownWord("command", args[0], commandNames(command))
}

func noSuchSubcommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return caller.UnknownWord(command.CommandPath()+" command", args[0], commandNames(command))
}
