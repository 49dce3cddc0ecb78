package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/internal/mesos/adapter"
)

// adapterCommand is the command that agents start for tasks of `tender mesos` that name an executor of their own.
func (a *App) adapterCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "adapter", Short: "The adapter below which executors for Apache Mesos run; agents start it", Hidden: true, Args: exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			err := givingBack(command.Context(), func(ctx context.Context) error { return adapter.Run(ctx, os.Environ()) })
			if exit := (*adapter.Exit)(nil); errors.As(err, &exit) {
				return failure{exit.Code, err}
			}
			return err
		},
	}
	command.AddCommand(&cobra.Command{
		Use: "fetch COMMAND", Short: "Bring the files of a command for Apache Mesos; tasks start it", Hidden: true, Args: exactly("COMMAND"),
		RunE: func(command *cobra.Command, args []string) error {
			return adapter.Fetch(command.Context(), args[0], ".")
		},
	})
	return command
}
