package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/internal/mesos/check"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

const (
	// mesosStateMax bounds the state that is read of a master of Mesos.
	mesosStateMax = 1 << 30
	// mesosStateTimeout bounds how long such a master may take: a large one needs many seconds.
	mesosStateTimeout = 2 * time.Minute
	// checkTasksShown is how many tasks are named of those that would not run for one reason.
	checkTasksShown = 3
)

func mesosCheckCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use:   "check ADDRESS [FRAMEWORK]",
		Short: "Say what of the frameworks of a cluster of Mesos would not work here",
		Long: "Read /state of a master of Mesos, and say of each framework, or of the one that is named, which of the tasks that run\n" +
			"now would not run on Tender, and why. Nothing is changed, there or here. What tasks are made of is all that a state\n" +
			"tells: a framework that uses something else at other times is not found out.\n\n" +
			"The exit code is 1 if something would not work.",
		Example: "  tender mesos check mesos-master.example:5050\n" +
			"  tender mesos check https://ann:secret@mesos.example marathon",
		Args: caller.Between(1, "ADDRESS", "FRAMEWORK"),
		RunE: func(command *cobra.Command, args []string) error {
			frameworks, err := readMesosState(command.Context(), args[0])
			if err != nil {
				return err
			}
			found, well := 0, true
			for _, f := range frameworks {
				if len(args) == 2 && args[1] != f.Name && args[1] != f.ID {
					continue
				}
				found++
				well = well && f.Works()
				tellChecked(who, f)
			}
			switch {
			case found == 0 && len(args) == 2:
				return fmt.Errorf("no framework there is called %q", args[1])
			case found == 0:
				who.SayUnless(false)("There are no frameworks.")
			case !well:
				return caller.Failure{Code: caller.Failed}
			}
			return nil
		},
	}
}

func tellChecked(who *caller.Caller, f check.Framework) {
	if len(f.Findings) == 0 {
		fmt.Fprintf(who.Stdout, "%s (%s): all of it would work; %s now\n", f.Name, f.ID, words.Count(f.Tasks, "task"))
		return
	}
	fmt.Fprintf(who.Stdout, "%s (%s): %s now\n", f.Name, f.ID, words.Count(f.Tasks, "task"))
	for _, finding := range f.Findings {
		fmt.Fprintf(who.Stdout, "  %s", finding.What)
		if n := len(finding.Tasks); n > 0 {
			fmt.Fprintf(who.Stdout, " (%d, such as %s)", n, strings.Join(finding.Tasks[:min(n, checkTasksShown)], ", "))
		}
		fmt.Fprintln(who.Stdout)
	}
}

func readMesosState(ctx context.Context, address string) ([]check.Framework, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	ctx, done := context.WithTimeout(ctx, mesosStateTimeout)
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/state", nil)
	if err != nil {
		return nil, caller.Usage(err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", request.URL.Redacted(), reply.Status)
	}
	text, err := io.ReadAll(io.LimitReader(reply.Body, mesosStateMax))
	if err != nil {
		return nil, err
	}
	return check.Read(text)
}
