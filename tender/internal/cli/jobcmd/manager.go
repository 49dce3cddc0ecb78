package jobcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs/manager"
	"github.com/tenderhq/tender/internal/calendar"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// managerFlags are the flags of 'tender jobs'.
type managerFlags struct {
	name, role      string
	bind, advertise string
	port            int
	insecure        bool
}

// ManagerCommand returns 'tender jobs'.
func (e Env) ManagerCommand() *cobra.Command {
	var f managerFlags
	command := &cobra.Command{
		Use:   "jobs",
		Short: "Run a job manager",
		Long: "Run a job manager, which runs the jobs that people submit with 'tender job'. Run several of them on different machines:\n" +
			"one is active, the others stand by, and when it is gone the next one takes over all jobs. If all job managers are gone,\n" +
			"the tasks go on, and the jobs are kept for 30 days.\n\n" +
			"Managers with different names (--name) are different frameworks, each with its jobs. The masters forward a job to the\n" +
			"manager whose role (--role) is the job's or the nearest one above it, and else to the one called \"jobs\"; --manager of\n" +
			"'tender job' names another. A manager takes jobs of every role in which its principal may run.\n\n" +
			"The masters forward requests of people to the active job manager, so they must be able to reach it at the host that\n" +
			"--advertise names. Every flag can also be given as an environment variable (TENDER_PORT for --port).\n\n" +
			"In a cluster with certificates a job manager joins with a framework's token, TENDER_TOKEN. Only masters can then\n" +
			"connect to its port.",
		Args: e.noWords,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.name, "name", manager.Endpoint, "name of its framework; managers of one name stand by for each other")
	flags.StringVar(&f.role, "role", string(api.DefaultRole), "role of the jobs that name none")
	flags.StringVar(&f.bind, "bind", "127.0.0.1", "address to listen on")
	flags.IntVar(&f.port, "port", 0, "port to listen on; 0 = any")
	flags.StringVar(&f.advertise, "advertise", "", "host at which masters reach it (default: the one of --bind; required when that is 0.0.0.0)")
	flags.BoolVar(&f.insecure, "insecure", false, "listen on other than loopback addresses without certificates, for trusted networks only")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := settings.Merge(flags, []string{"name", "role", "bind", "port", "advertise", "insecure"}, e.Lookup, nil); err != nil {
			return caller.Usage(err)
		}
		token, _ := e.Lookup("TENDER_TOKEN")
		ip, err := settings.Listen{Bind: f.bind, Port: f.port, Advertise: f.advertise}.Check("masters")
		switch {
		case err != nil:
			return caller.Usage(err)
		case f.insecure && token != "":
			return caller.Usage(errors.New("--insecure and TENDER_TOKEN exclude each other: who joins a cluster does nothing unencrypted"))
		case !ip.IsLoopback() && !f.insecure && token == "":
			return caller.Usage(fmt.Errorf("--bind %s can be reached by others and there is no TLS: set TENDER_TOKEN (an operator makes one: tender token create "+
				"framework --principal NAME), or say --insecure if their network is trusted", f.bind))
		}
		if err := api.Role(f.role).Check(); err != nil {
			return caller.Usage(fmt.Errorf("--role: %w", err))
		}
		masters, err := e.MastersOr(nil)
		if err != nil {
			return err
		}
		if token == "" && !f.insecure {
			if token, err = e.BesideDev(command.Context(), masters); err != nil {
				return err
			}
		}
		return manager.Run(command.Context(), manager.RunConfig{Name: f.name, Role: api.Role(f.role), Masters: masters, Token: token, Bind: f.bind, Port: f.port, Advertise: f.advertise, Log: e.Stderr,
			Calendar: calendar.Next, Judge: constraint.OfOffer, Lookup: e.Lookup})
	}
	return command
}

// noWords refuses arguments of 'tender jobs': whoever writes them means 'tender job'.
func (e Env) noWords(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return caller.Usage(fmt.Errorf("'tender jobs' runs a job manager and takes no words; write 'tender job %s'", strings.Join(args, " ")))
}
