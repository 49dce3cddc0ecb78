package cli

import (
	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/internal/commandexecutor"
)

// executorCommand is what agents start for tasks that are commands.
func (a *App) executorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "executor", Short: "The built-in executor for commands; agents start it", Hidden: true, Args: exactly(),
		RunE: func(command *cobra.Command, _ []string) error { return commandexecutor.Run(command.Context()) },
	}
}
