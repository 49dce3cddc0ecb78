package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// The exit codes; `tender help exit-codes` explains them to people.
const (
	codeOK      = 0
	codeFailed  = 1
	codeUsage   = 2 // also if what run asks for fits nowhere
	codePending = 3
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

// failure is an error with its own exit code. If err is nil, nothing is printed.
type failure struct {
	code int
	err  error
}

func (f failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f failure) Unwrap() error { return f.err }

// usage marks an error as a mistake of the caller.
func usage(err error) error { return failure{codeUsage, err} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func codeOf(err error) int {
	if f := (failure{}); errors.As(err, &f) {
		return f.code
	}
	if api.KindOf(err) == api.Invalid {
		return codeUsage
	}
	return codeFailed
}

// sentence returns an error as people read it: without the operation, and without a kind that the text tells already.
func sentence(err error) string {
	if f := (failure{}); errors.As(err, &f) && f.err == nil {
		return ""
	}
	if away := (*client.Unreachable)(nil); errors.As(err, &away) {
		if away.Leaderless {
			return away.Error() + "; a majority of them must be up"
		}
		return away.Error() + "; start a cluster with 'tender dev', or name the masters with --master or TENDER_MASTER"
	}
	text := err.Error()
	if own := (*api.Error)(nil); errors.As(err, &own) {
		text = strings.Replace(text, own.Error(), plainly(own), 1)
	}
	return oneLine(text)
}

func plainly(err *api.Error) string {
	var inner *api.Error
	switch {
	case err.Err == nil && err.Subject == "":
		return err.Kind.String()
	case err.Err == nil:
		return err.Subject + ": " + err.Kind.String()
	case errors.As(err.Err, &inner) && inner == err.Err: //nolint:errorlint // one further in stands between words that we keep
		return plainly(inner)
	case err.Subject == "" || strings.Contains(err.Err.Error(), err.Subject):
		return err.Err.Error()
	}
	return err.Subject + ": " + err.Err.Error()
}

// oneLine joins the lines of joined errors.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}

// flagError turns an error of the flag parser into a sentence that suggests the closest flag.
func flagError(command *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if short := missing.GetSpecifiedShortnames(); short != "" && strings.Trim(short, "0123456789.") == "" {
			return usagef("'%s' has no flag -%s; a negative number stands behind '--', such as '%s ... -- -%s'",
				command.CommandPath(), short, command.CommandPath(), short)
		} else if meant := flagsBeginning(command, short); meant != "" {
			return usagef("'%s' has no flag -%s; did you mean %s?", command.CommandPath(), missing.GetSpecifiedName(), meant)
		} else if short != "" {
			return usagef("'%s' has no flag -%s; see '%s --help'", command.CommandPath(), missing.GetSpecifiedName(), command.CommandPath())
		}
		return unknownFlag(command, missing.GetSpecifiedName())
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		if value.GetFlag().Value.Type() == "stringToString" {
			return usagef("--%s: %q is wrong; write NAME=VALUE", value.GetFlag().Name, value.GetValue())
		}
		if value.GetFlag().Value.Type() == "int" {
			return usagef("--%s: %q is wrong; write a whole number, such as 3", value.GetFlag().Name, value.GetValue())
		}
		if value.GetFlag().Value.Type() == "duration" {
			return usagef("--%s: %q is wrong; write a time such as 5s, 10m or 1h30m", value.GetFlag().Name, value.GetValue())
		}
		if value.GetFlag().Value.Type() == "format" {
			return usagef("--%s: %w", value.GetFlag().Name, cause(value))
		}
		return usagef("--%s: %q is wrong: %w", value.GetFlag().Name, value.GetValue(), cause(value))
	}
	return usagef("%w; see '%s --help'", err, command.CommandPath())
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
		return usagef("'%s' has no flag --%s; did you mean --%s?", command.CommandPath(), name, closest)
	}
	return usagef("'%s' has no flag --%s; see '%s --help'", command.CommandPath(), name, command.CommandPath())
}

// cause returns the innermost error of a wrong value, without the name of the function that found it.
func cause(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// unknownWord returns the error that a word is unknown, with the known word that may have been meant.
func unknownWord(noun, word string, known []string) error {
	return usage(settings.Unknown(noun, word, known))
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

func (a *App) noSuchCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownWord("command", args[0], commandNames(command))
}

func noSuchSubcommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownWord(command.CommandPath()+" command", args[0], commandNames(command))
}

// exactly checks the number of arguments by their names: "TASK", "FRAMEWORK".
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), names...) }

// between checks that at least so many of the named arguments are there, and no more than all of them.
func between(least int, names ...string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		path := command.CommandPath()
		switch {
		case len(args) < least:
			return usagef("'%s' needs %s; write '%s'", path, strings.Join(names[len(args):least], " and "), command.UseLine())
		case len(args) > len(names):
			return usagef("%q is one word too many for '%s'; write '%s'", args[len(names)], path, command.UseLine())
		}
		return nil
	}
}

func splitList(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
