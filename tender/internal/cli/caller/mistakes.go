package caller

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// The exit codes; 'tender help exit-codes' explains them to people.
const (
	OK         = 0
	Failed     = 1
	WrongUsage = 2 // also if what run asks for fits nowhere
	Pending    = 3
)

// Failure is an error with its own exit code. If Err is nil, nothing is printed.
type Failure struct {
	Code int
	Err  error
}

func (f Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

func (f Failure) Unwrap() error { return f.Err }

// Usage marks an error as a mistake of the caller.
func Usage(err error) error { return Failure{WrongUsage, err} }

// Usagef makes an error that is a mistake of the caller.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// CodeOf returns the exit code for an error.
func CodeOf(err error) int {
	if f := (Failure{}); errors.As(err, &f) {
		return f.Code
	}
	if api.KindOf(err) == api.Invalid {
		return WrongUsage
	}
	return Failed
}

// Sentence returns an error as people read it: without the operation, and without a kind that the text tells already.
func Sentence(err error) string {
	if f := (Failure{}); errors.As(err, &f) && f.Err == nil {
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
	return OneLine(text)
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

// OneLine joins the lines of joined errors.
func OneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}

// Cause returns the innermost error of a wrong value, without the name of the function that found it.
func Cause(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// UnknownWord returns the error that a word is unknown, with the known word that may have been meant.
func UnknownWord(noun, word string, known []string) error {
	return Usage(settings.Unknown(noun, word, known))
}

// Exactly checks the number of arguments by their names: "TASK", "FRAMEWORK".
func Exactly(names ...string) cobra.PositionalArgs { return Between(len(names), names...) }

// Between checks that at least so many of the named arguments are there, and no more than all of them.
func Between(least int, names ...string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		path := command.CommandPath()
		switch {
		case len(args) < least:
			return Usagef("'%s' needs %s; write '%s'", path, strings.Join(names[len(args):least], " and "), command.UseLine())
		case len(args) > len(names):
			return Usagef("%q is one word too many for '%s'; write '%s'", args[len(names)], path, command.UseLine())
		}
		return nil
	}
}
