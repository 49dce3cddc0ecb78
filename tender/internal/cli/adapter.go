package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/internal/mesos/adapter"
	"github.com/tenderhq/tender/internal/mesos/terminal"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

// adapterCommand is the command that agents start for tasks of `tender mesos` that name an executor of their own.
func adapterCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use: "adapter", Short: "The adapter below which executors for Apache Mesos run; agents start it", Hidden: true, Args: caller.Exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			err := givingBack(command.Context(), func(ctx context.Context) error { return adapter.Run(ctx, os.Environ()) })
			if exit := (*adapter.Exit)(nil); errors.As(err, &exit) {
				return caller.Failure{Code: exit.Code, Err: err}
			}
			return err
		},
	}
	command.AddCommand(&cobra.Command{
		Use: "fetch COMMAND", Short: "Bring the files of a command for Apache Mesos; tasks start it", Hidden: true, Args: caller.Exactly("COMMAND"),
		RunE: func(command *cobra.Command, args []string) error {
			return adapter.Fetch(command.Context(), args[0], ".")
		},
	})
	command.AddCommand(&cobra.Command{
		Use: "terminal -- COMMAND [ARGUMENT...]", Short: "Run a command of Apache Mesos in a terminal; tasks start it", Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signals := make(chan os.Signal, 16)
			signal.Notify(signals, inside.Passed...)
			code, err := terminal.Hold(args, signals, who.Stdout)
			if err == nil && code != 0 {
				return caller.Failure{Code: code}
			}
			return err
		},
	})
	var input bool
	attach := &cobra.Command{
		Use: "attach", Short: "Attach to the terminal of a task of Apache Mesos; gateways start it", Hidden: true, Args: caller.Exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			out := who.Stdout
			if input {
				out = nil
			}
			return terminal.Attach(command.Context(), who.Stdin, out)
		},
	}
	attach.Flags().BoolVar(&input, "input", false, "only pass on what is read")
	command.AddCommand(attach)
	return command
}
