package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/agent"
	"github.com/tenderhq/tender/internal/cli/show"
)

func (a *App) resetTermCommand() *cobra.Command {
	var dataDir, confirm string
	command := &cobra.Command{
		Use:   "reset-term",
		Short: "Have an agent that does not run forget the newest term that it has obeyed",
		Long: "Have an agent that does not run forget the newest term that it has obeyed. An agent obeys no leader of an older term, so\n" +
			"one that a wrong master has told a term which no true leader will reach obeys nobody any more. Afterwards it obeys the\n" +
			"first leader of its cluster that answers: make sure that --master names the true ones. Its tasks are not touched.\n\n" +
			"Without --confirm it only says what it has found.",
		Example: "  tender agent reset-term --data-dir /var/lib/tender/agent\n" +
			"  tender agent reset-term --data-dir /var/lib/tender/agent --confirm agent-7",
		Args: exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&dataDir, "data-dir", "", "folder of the agent (needed)")
	flags.StringVar(&confirm, "confirm", "", "the agent's ID: no leader of an older term is alive")
	command.RunE = func(*cobra.Command, []string) error {
		if dataDir == "" {
			return usagef("name the folder of the agent: --data-dir FOLDER")
		}
		found, err := agent.Inspect(dataDir)
		switch {
		case err != nil:
			return err
		case confirm == "":
			return a.tellStanding(dataDir, found)
		case confirm != string(found.Agent):
			return usagef("the folder is of %s, not of %s; nothing was changed", found.Agent, confirm)
		}
		if found, err = agent.ResetTerm(dataDir); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Stdout, "agent %s has forgotten term %s; it obeys the first leader of %s that answers\n", found.Agent, found.Term, found.Cluster)
		return err
	}
	return command
}

func (a *App) tellStanding(dataDir string, found agent.Standing) error {
	err := show.Fields(a.Stdout, [][2]string{
		{"Agent", string(found.Agent)},
		{"Cluster", string(found.Cluster)},
		{"Term", found.Term.String()},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "\nNothing was changed, and an agent that its leader has registered needs no change. Only if its log says of every\n"+
		"true leader that its term is over, as no one of them will reach this one:\n"+
		"  tender agent reset-term --data-dir %s --confirm %s\n", dataDir, found.Agent)
	return err
}
