package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/agent"
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/framework/jobs/manager"
	"github.com/tenderhq/tender/internal/calendar"
	"github.com/tenderhq/tender/internal/mesos/translate"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/contexts"
	"github.com/tenderhq/tender/tender/internal/cli/dev"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// devFlags are the flags of `tender dev`.
type devFlags struct {
	masters, agents int
	dataDir         string
	allocator       string
	journal         string
	resources       string
	masterProcesses bool
	agentProcesses  bool
	racks           int
	ownHostnames    bool
	attributes      map[string]string
	freePorts       bool
	verbose         bool
	resourcesParsed api.Resources
	taskUser        string
	insecure        bool
	chaos           *uint64 // the seed; nil: nothing is broken
}

const (
	devMastersMax = 5
	devAgentsMax  = 1000
	// devRestart is the pause before a process of dev that ended is started again: long enough to be seen.
	devRestart = time.Second
	// devResources are what each agent of dev offers, whatever the machine has, so that it is the same everywhere. Each
	// agent also has a hundred ports, which no other agent of a cluster of dev on the machine has.
	devResources = "cpus:4;mem:4096;disk:10240"
)

func (a *App) devCommand() *cobra.Command {
	var f devFlags
	jobs, mesos, dead, seed := true, false, false, uint64(0)
	command := &cobra.Command{
		Use:   "dev",
		Short: "Start a whole cluster on this machine, until Ctrl-C",
		Long: "Start masters and agents in this one process, on loopback, and print what to type next. Ctrl-C ends all of it,\n" +
			"including the tasks. If the default ports are free, the first master takes them, and other commands find it there.\n\n" +
			"All connections except HTTP on loopback are encrypted, by a certificate authority that is made at the start. No token\n" +
			"needs to be typed: commands, frameworks and agents of the same user find theirs by themselves.\n\n" +
			"While the cluster runs, the file dev.json in its folder tells programs where its masters and agents are.",
		Example: "  tender dev\n" +
			"  tender dev --masters 3 --agents 4\n" +
			"  tender dev --agents 6 --racks 3 --attributes disk=ssd --agent-processes\n" +
			"  tender dev --chaos 7",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.masters, "masters", 1, "how many masters: 1, 3 or 5")
	flags.IntVar(&f.agents, "agents", 1, "how many agents")
	flags.StringVar(&f.dataDir, "data-dir", "", "folder of the cluster, which is kept at the end (default: a temporary one, which is removed)")
	flags.StringVar(&f.allocator, "allocator", "", "how resources are shared: "+strings.Join(allocator.Names(), ", ")+" (default fairshare)")
	flags.StringVar(&f.journal, "allocator-journal", "", "file that records what the allocator is told and what it proposes, for 'tender allocator replay'; only with one master")
	flags.StringVar(&f.resources, "agent-resources", devResources, "what each agent offers, in addition to a hundred ports; detect = what the machine has")
	flags.BoolVar(&f.masterProcesses, "master-processes", false, "run each master as a process of its own; one that is killed is started again")
	flags.BoolVar(&f.agentProcesses, "agent-processes", false, "run each agent as a process of its own; one that is killed ends with its tasks and is started again")
	flags.BoolVar(&dead, "no-heal", false, "do not start a process again that ended or was killed")
	flags.Uint64Var(&seed, "chaos", 0, "break the cluster by the plan of this seed as soon as a framework is there, and tell what is broken when and what the\n"+
		"framework does; 3 masters and 3 agents unless you say otherwise, each a process")
	flags.IntVar(&f.racks, "racks", 0, "distribute the agents over this many racks: attributes rack=r1, rack=r2, ...; implies --own-hostnames")
	flags.BoolVar(&f.ownHostnames, "own-hostnames", false, "give each agent a hostname of its own: host-1, host-2, ... (default: this machine's)")
	flags.StringToStringVar(&f.attributes, "attributes", nil, "attributes of every agent, as NAME=VALUE,..., in addition to dev=NUMBER")
	flags.StringVar(&f.taskUser, "task-user", "", "user as whom tasks run: a user of this machine, or dynamic = each framework gets a user of its own "+
		"(default: you, also under sudo)")
	flags.BoolVar(&f.freePorts, "free-ports", false, "take any free ports and never the default ones; commands then need --master")
	flags.BoolVar(&f.insecure, "insecure", false, "run without certificates: everybody on this machine may do everything")
	flags.BoolVar(&jobs, "jobs", true, "also run a job manager, for 'tender job'")
	flags.BoolVar(&mesos, "mesos", false, "also run a gateway for frameworks of Apache Mesos, which lets every program on this machine in")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print what the masters and agents log (default: only errors)")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if command.Flags().Changed("chaos") {
			if dead {
				return caller.Usagef("--chaos and --no-heal exclude each other: what is broken is mended")
			}
			f.breakBy(seed, command.Flags().Changed)
		}
		if err := f.check(); err != nil {
			return caller.Usage(err)
		}
		config, err := a.devConfig(f)
		if err != nil {
			return err
		}
		if !dead {
			config.Restart = devRestart
		}
		if jobs {
			config.RunJobs = func(ctx context.Context, masters []string, token string) error {
				return manager.Run(ctx, manager.RunConfig{Masters: masters, Token: token, Calendar: calendar.Next, Judge: constraint.OfOffer})
			}
		}
		if mesos {
			gateway := mesosFlags{bind: "127.0.0.1", port: mesosPort, agentPort: translate.AgentPort, open: true}
			if f.freePorts {
				gateway.port, gateway.agentPort = 0, 0
			}
			config.RunMesos = func(ctx context.Context, masters []string, token string) error {
				return runMesos(ctx, &a.Caller, gateway, masters, token)
			}
		}
		return dev.Run(command.Context(), config)
	}
	return command
}

// breakBy sets what a cluster needs that is to be broken.
func (f *devFlags) breakBy(seed uint64, said func(flag string) bool) {
	f.chaos, f.masterProcesses, f.agentProcesses = &seed, true, true
	if !said("masters") {
		f.masters = 3
	}
	if !said("agents") {
		f.agents = 3
	}
}

func (f *devFlags) check() (err error) {
	switch {
	case f.masters != 1 && f.masters != 3 && f.masters != 5:
		return fmt.Errorf("--masters is %d; a quorum has 1, 3 or %d", f.masters, devMastersMax)
	case f.agents < 0 || f.agents > devAgentsMax:
		return fmt.Errorf("--agents is %d; write 0 to %d", f.agents, devAgentsMax)
	case f.racks < 0 || f.racks > devAgentsMax:
		return fmt.Errorf("--racks is %d; write 1 to %d, or leave it out", f.racks, devAgentsMax)
	case f.attributes["dev"] != "" || f.racks > 0 && f.attributes["rack"] != "":
		return fmt.Errorf("--attributes: dev and rack are set for each agent by dev itself; choose other names, or leave --racks out")
	case f.journal != "" && f.masters != 1:
		return fmt.Errorf("--allocator-journal is written by one master, which leads all the time; with %d say --masters 1 or leave the journal out", f.masters)
	case f.resources == "detect":
		return nil
	}
	if f.resourcesParsed, err = settings.ParseResources(f.resources); err != nil {
		return fmt.Errorf("--agent-resources: %w", err)
	}
	return nil
}

func (a *App) devConfig(f devFlags) (dev.Config, error) {
	executor, err := commandExecutor()
	if err != nil {
		return dev.Config{}, err
	}
	taskUser := devTaskUser(f.taskUser, a.Lookup)
	// Elections and broken connections are warnings for an operator, but usual for somebody who plays with failures.
	level := "error"
	if f.verbose {
		level = "debug"
	}
	log := a.newLogger(a.Stderr, level, true, a.Terminal)
	return dev.Config{
		Masters: f.masters, Agents: f.agents, Dir: f.dataDir, Processes: f.masterProcesses, AgentProcesses: f.agentProcesses, FreePorts: f.freePorts,
		RunMaster: func(ctx context.Context, m dev.Master) error {
			return runMaster(ctx, devMaster(m, f, log))
		},
		RunAgent: func(ctx context.Context, d dev.Agent) error {
			config := devAgent(d, f, log.Logger, executor)
			// Who starts dev works on this machine: tasks can start what that person can start.
			config.Path, _ = a.Lookup("PATH")
			config.TaskUser = taskUser
			return runAgent(ctx, config)
		},
		Binary: executor[0], MasterArgs: func(m dev.Master) []string { return devMasterArgs(m, f) },
		AgentArgs: func(d dev.Agent) []string {
			path, _ := a.Lookup("PATH")
			return devAgentArgs(d, f, path, taskUser)
		},
		Operator: devOperator(a.Dial),
		Insecure: f.insecure,
		Chaos:    f.chaos,
		Announce: func(masters []string, token string) (func() error, error) {
			return nearby.Announce(nearby.UsersOf(a.Lookup), masters, token)
		},
		Say:   a.SayUnless(false),
		Ready: func(c dev.Cluster) { devReady(&a.Caller, c, f) },
	}, nil
}

// devTaskUser returns the user that tasks run as: the one that the flag names, else the person who works on this
// machine, also if sudo has made that person root. "" is the user of this process.
func devTaskUser(named string, lookup func(string) (string, bool)) string {
	if person, _ := lookup("SUDO_USER"); named == "" && os.Geteuid() == 0 {
		return person
	}
	return named
}

func devAgent(d dev.Agent, f devFlags, log zerolog.Logger, executor []string) agent.Config {
	return agent.Config{
		Masters: d.Masters, Token: d.Token, DataDir: d.Dir, Bind: hostOf(d.HTTP), Port: portOf(d.HTTP), Resources: devAgentResources(d, f),
		Attributes:      devAttributes(d, f),
		Hostname:        devHostname(d, f),
		Programs:        agent.Programs{CommandExecutor: executor, Enter: enterHelper(executor), ExecMax: execMaxDefault},
		RecoveryTimeout: -1, // tasks end with dev (R32)
		Logger:          log.With().Int("agent", d.Number+1).Logger(),
		World:           agent.World{OpenHTTP: d.Token != ""},
	}
}

// devAttributes returns attributes that tell the agents apart, and put them into racks.
func devAttributes(d dev.Agent, f devFlags) map[string]string {
	attributes := map[string]string{"dev": strconv.Itoa(d.Number + 1)}
	maps.Copy(attributes, f.attributes)
	if f.racks > 0 {
		attributes["rack"] = "r" + strconv.Itoa(d.Number%f.racks+1)
	}
	return attributes
}

// devHostname returns the hostname of an agent; "" for that of the machine.
func devHostname(d dev.Agent, f devFlags) string {
	if f.racks == 0 && !f.ownHostnames {
		return ""
	}
	return "host-" + strconv.Itoa(d.Number+1)
}

// recovery returns how long tasks wait for their agent: not at all, so that they end with dev, unless agents are killed
// to see what becomes of the tasks.
func (f devFlags) recovery() string {
	if f.chaos != nil {
		return "1m"
	}
	return "0s"
}

// devAgentArgs returns the arguments that start the agent of devAgent as a process. Its tasks end with it (R32).
func devAgentArgs(d dev.Agent, f devFlags, path, taskUser string) []string {
	level := "error"
	if f.verbose {
		level = "debug"
	}
	var attributes []string
	all := devAttributes(d, f)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		attributes = append(attributes, name+"="+all[name])
	}
	args := []string{
		"agent", "--stop-on-eof", "--data-dir", d.Dir, "--bind", hostOf(d.HTTP), "--http-port", fmt.Sprint(portOf(d.HTTP)),
		"--master", strings.Join(d.Masters, ","), "--hostname", devHostname(d, f), "--attributes", strings.Join(attributes, ","),
		"--path", path, "--recovery-timeout", f.recovery(), "--log-format", "console", "--log-level", level,
	}
	if args = append(args, devProof(d.Token == "")); d.Token != "" {
		args = append(args, "--join", d.TokenFile)
	}
	if taskUser == "" && os.Geteuid() == 0 {
		taskUser = "root"
	}
	if taskUser != "" {
		args = append(args, "--task-user", taskUser)
	}
	if resources := devAgentResources(d, f); !resources.IsZero() {
		args = append(args, "--resources", resources.String())
	}
	return args
}

// devAgentResources returns the resources of an agent; zero lets the agent detect them.
func devAgentResources(d dev.Agent, f devFlags) api.Resources {
	if f.resources == "detect" || d.Ports == (dev.TaskPorts{}) || len(f.resourcesParsed.RangesOf("ports")) > 0 {
		return f.resourcesParsed
	}
	ports := api.NewRanges(api.Range{Begin: uint64(d.Ports.First), End: uint64(d.Ports.Last)})
	return f.resourcesParsed.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: ports}))
}

// devOperator connects with the identity of the token, as soon as a master leads; with "", without an identity.
func devOperator(dial trust.Dial) func(context.Context, []string, string, func(error)) (apiv1.OperatorServiceClient, io.Closer, error) {
	return func(ctx context.Context, masters []string, token string, failed func(error)) (apiv1.OperatorServiceClient, io.Closer, error) {
		config := client.Config{Masters: masters, Dial: dial}
		if token != "" {
			how := joining.Config{Masters: masters, Dial: transport.DialTCP, Failed: func(_ string, err error) { failed(err) }}
			holder, _, err := joining.Member(ctx, how, token, trust.Person)
			if err != nil {
				return nil, nil, err
			}
			config.Dial = holder.Dialer(transport.DialTCP, trust.Master)
		}
		c, err := client.New(config)
		if err != nil {
			return nil, nil, err
		}
		return c.Operator(), c, nil
	}
}

// tokenBesideDev returns a token for a daemon that is started beside the cluster of `tender dev` that this user runs on this
// machine. It is "" if the masters belong to no such cluster.
func tokenBesideDev(
	ctx context.Context, who *caller.Caller, masters []string, makeToken func(context.Context, apiv1.OperatorServiceClient) (string, error),
) (token string, err error) {
	if len(masters) == 0 {
		masters = []string{client.DefaultMaster}
	}
	first := contexts.Wish{Lookup: who.Lookup, Dial: who.Dial}.Nearby(masters)
	if first == "" {
		return "", nil
	}
	operator, closer, err := devOperator(who.Dial)(ctx, masters, first, func(error) {})
	if err != nil {
		return "", err
	}
	token, err = makeToken(ctx, operator)
	return token, errors.Join(err, closer.Close())
}

// devReady says what is running and what to type next.
func devReady(who *caller.Caller, c dev.Cluster, f devFlags) {
	kept := "kept"
	if c.Temporary {
		kept = "removed at the end"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s and %s are up after %.1f s. Data is in %s (%s).\n\n",
		words.Count(len(c.Masters), "master"), words.Count(len(c.Agents), "agent"), c.Took.Round(time.Millisecond).Seconds(), c.Dir, kept)
	var rows [][]string
	for _, m := range c.Masters {
		rows = append(rows, []string{"  master " + m.ID, "grpc " + m.GRPC, "http://" + m.HTTP})
	}
	for _, d := range c.Agents {
		rows = append(rows, []string{"  agent " + d.ID, "", "http://" + d.HTTP})
	}
	align(&text, rows)
	fmt.Fprintf(&text, "\nThe page, for a browser: http://%s/\n", c.Masters[0].HTTP)
	program := programName()
	fmt.Fprintf(&text, "\nNow type in another shell:\n\n")
	if name, _ := who.Lookup("TENDER_CONTEXT"); name != "" {
		fmt.Fprintf(&text, "  unset TENDER_CONTEXT\n")
	}
	chosen, _ := contexts.Of(who.Lookup).Current() // commands report an error of it
	if c.Masters[0].GRPC != client.DefaultMaster || chosen != "" {
		fmt.Fprintf(&text, "  export TENDER_MASTER=%s\n", strings.Join(grpcOf(c), ","))
	}
	fmt.Fprintf(&text, "  %s run -- echo hello\n  %s get agents\n\nCtrl-C here ends everything.\n", program, program)
	_, _ = io.WriteString(who.Stdout, text.String()) // a closed stdout is no reason to end a cluster
}

func grpcOf(c dev.Cluster) (addresses []string) {
	for _, m := range c.Masters {
		addresses = append(addresses, m.GRPC)
	}
	return addresses
}

// align pads the cells of rows, so that they form columns.
func align(w *strings.Builder, rows [][]string) {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		w.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func portOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return number
}
