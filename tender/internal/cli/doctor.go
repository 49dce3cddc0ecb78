package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/doctor"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func doctorCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and a cluster for what keeps them from working well",
		Long: "Check this machine for masters and agents: its clock, limits, control groups, ports, certificates, and the speed and\n" +
			"room of the disk of the data folder. If --master, --context or their variables name a cluster, check it as well: its\n" +
			"masters, their clocks, versions and disks, its agents, and certificates, as far as you may see them.\n\n" +
			"Each line says what is, what would be right, and what to do. Nothing is changed.\n\n" +
			"The exit code is 1 if something is bad, and 0 otherwise, also if there are warnings.",
		Example: "  sudo tender doctor\n" +
			"  tender doctor --master 10.0.0.1:5060 -o json | jq '.items[] | select(.state != \"good\")'",
		Args: caller.Exactly(),
	}
	dataDir := command.Flags().String("data-dir", "/var/lib/tender", "data folder of a master or agent of this machine, or the folder above those; it need not exist yet")
	format := show.FormatFlag(command.Flags(), show.AsTable, show.AsJSON)
	command.RunE = func(command *cobra.Command, _ []string) error {
		found := doctor.Machine(*dataDir, who.Now())
		if namesCluster(who) {
			found = append(found, examineCluster(command.Context(), who)...)
		}
		doctor.Sort(found)
		if err := showFindings(who, found, format); err != nil {
			return err
		}
		if bad := doctor.Count(found, doctor.Bad); bad > 0 {
			return caller.Failure{Code: caller.Failed, Err: fmt.Errorf("%s bad", words.Count(bad, "thing")+map[bool]string{true: " is", false: " are"}[bad == 1])}
		}
		return nil
	}
	return command
}

// namesCluster says whether the command line or the environment names a cluster.
func namesCluster(who *caller.Caller) bool {
	for _, name := range []string{"TENDER_MASTER", "TENDER_CONTEXT"} {
		if text, _ := who.Lookup(name); text != "" {
			return true
		}
	}
	return len(who.Masters) > 0 || who.Context != ""
}

// examineCluster looks at the cluster. That nobody answers is a finding, because the machine was looked at all the same.
func examineCluster(ctx context.Context, who *caller.Caller) []doctor.Finding {
	var found []doctor.Finding
	c, err := who.Client(ctx)
	if err == nil {
		defer func() { _ = c.Close() }() // nothing is under way any more
		found, err = doctor.Cluster(ctx, c, who.Now)
	}
	if err != nil {
		found = append(found, doctor.Finding{
			State: doctor.Bad, Of: "cluster", What: "masters", Is: caller.Sentence(err), Right: "a master leads, and answers you",
			Do: "see the logs of the masters (docs/operate.md, \"When a majority is lost\")",
		})
	}
	return found
}

func showFindings(who *caller.Caller, found []doctor.Finding, format *show.Format) error {
	if format.Is(show.AsJSON) {
		return show.Indented(who.Stdout, map[string]any{"items": found})
	}
	rows := make([][]string, len(found))
	for i, f := range found {
		rows[i] = []string{string(f.State), f.Of, f.What, f.Is, f.Right, f.Do}
	}
	return show.Table(who.Stdout, []string{"STATE", "OF", "WHAT", "IS", "RIGHT", "DO"}, rows)
}
