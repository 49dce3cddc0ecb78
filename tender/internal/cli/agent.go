package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/agent"
	"github.com/tenderhq/tender/agent/commands"
	"github.com/tenderhq/tender/agent/images"
	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/dev"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// agentFlags are the flags of `tender agent` besides the shared ones.
type agentFlags struct {
	port                           int
	hostname, resources            string
	attributes                     map[string]string
	region, zone, path             string
	recovery, executor, idle, keep time.Duration
	keepMax, execMax               int
	taskUser                       string
	taskUsers                      []string
	keepSize, output, audit        string
	walls                          wallFlags
	fetchFlags
}

// wallFlags are the flags about walls; the lists are converted to fields of the config.
type wallFlags struct {
	walls.Config
	rlimits, gpus []string
}

// fetchFlags say what may be fetched for tasks, and from where.
type fetchFlags struct {
	fetchLocal bool
	images     images.Config
	imageCache string // MB
}

func (a *App) agentCommand() *cobra.Command {
	d := &daemon{app: a, proof: membership.PassFile}
	var f agentFlags
	command := &cobra.Command{
		Use:   "agent",
		Short: "Offer this machine's resources to a cluster",
		Long:  "Offer this machine's resources to a cluster, and run its tasks. --master says where the masters are.\n\n" + envHelp,
		Args:  caller.Exactly(),
	}
	flags := command.Flags()
	d.flags(flags, "/var/lib/tender/agent")
	flags.IntVar(&f.port, "http-port", 5051, "port for HTTP, which serves logs, files and metrics; 0 = none")
	flags.StringVar(&f.hostname, "hostname", "", "hostname of this machine as the cluster shows it (default: what the system says)")
	flags.StringVar(&f.resources, "resources", "", "what to offer, such as 'cpus:4;mem:4096;ports:[31000-32000]' (default: what the machine has, minus a reserve)")
	flags.StringToStringVar(&f.attributes, "attributes", nil, "NAME=VALUE,... for the constraints of frameworks")
	flags.StringVar(&f.region, "region", "", "region in which this machine is; regions fail independently of each other")
	flags.StringVar(&f.zone, "zone", "", "zone in which this machine is; zones fail independently of each other")
	flags.StringVar(&f.path, "path", protocol.DefaultPath, "where programs are searched; also the PATH of tasks that set none")
	flags.DurationVar(&f.recovery, "recovery-timeout", 15*time.Minute, "how long executors wait for this agent when it has stopped; 0 = not at all")
	flags.DurationVar(&f.executor, "executor-timeout", time.Minute, "how long an executor may take to connect after its start")
	flags.DurationVar(&f.idle, "executor-idle", time.Minute, "how long a built-in executor stays when it has no task")
	flags.DurationVar(&f.keep, "sandbox-age", 7*24*time.Hour, "how long the folder of an ended task is kept")
	flags.IntVar(&f.keepMax, "sandboxes-max", 1000, "how many folders of ended tasks are kept at most")
	flags.StringVar(&f.keepSize, "sandboxes-size", "0", "how many MB the folders of ended tasks may take together; 0 = as much as the disk has room for")
	flags.StringVar(&f.output, "output-max", "64", "how many MB of each stdout and stderr are kept, the newest ones; 0 = all")
	flags.StringVar((*string)(&f.walls.Isolation), "isolation", string(walls.Best), "how tasks and executors are isolated: auto = by control groups if the machine has them, cgroups = by control groups, "+
		"and without them the agent does not start, namespaces = by control groups and namespaces, none")
	flags.Int64Var(&f.walls.PidsMax, "task-pids", 4096, "how many processes and threads a task may have if it sets no limit itself; 0 = any number")
	flags.BoolVar(&f.walls.HardQuota, "cpu-quota", false, "give no task more processor time than it has asked for, even when processors are idle")
	flags.BoolVar(&f.walls.ReadOnlyRoot, "read-only-root", false, "let tasks with namespaces write only to their sandboxes, volumes and /tmp")
	flags.BoolVar(&f.walls.DenyCalls, "seccomp", false, "deny tasks system calls that change the machine or look into other processes, such as mount, ptrace and bpf; "+
		"on machines with control groups this needs --isolation namespaces")
	flags.BoolVar(&f.walls.Landlock, "landlock", false, "if the agent is not root, keep tasks away from its files and from each other's; "+
		"of all other files they may change only those in /tmp")
	flags.StringSliceVar(&f.walls.rlimits, "task-rlimit", nil, "resource limits (ulimit) of each process of executors and tasks, as NAME=SOFT[:HARD],...; "+
		"NAME is core, fsize, memlock, nofile, nproc or stack")
	flags.StringSliceVar(&f.walls.gpus, "gpu-device", nil, "device files of the GPUs, in the order of their indices (default: those of NVIDIA's driver)")
	flags.StringVar(&f.audit, "audit-log", "", "file that gets a line of JSON for each command of 'tender exec' and each denied request; '-' = standard output, 'off' = none (default audit.log in the data folder)")
	flags.IntVar(&f.execMax, "exec-max", execMaxDefault, "how many commands of 'tender exec' may run at the same time; 0 = none")
	flags.StringVar(&f.taskUser, "task-user", "", "user as whom tasks run: a user of this machine, or dynamic = each framework gets a user of its own "+
		"(default: if the agent is root, dynamic where possible and otherwise nobody; else the agent's user)")
	flags.StringSliceVar(&f.taskUsers, "task-users", nil, "users as whom tasks may ask to run; '*' = everybody except root")
	flags.BoolVar(&f.fetchLocal, "fetch-local", false, "let tasks fetch files from link-local addresses, and let servers redirect a download to this machine")
	flags.StringVar(&f.imageCache, "image-cache", "10240", "how many MB the images of tasks may take; unused ones are removed when room is needed")
	flags.StringSliceVar(&f.images.InsecureRegistries, "insecure-registry", nil, "registries that are asked for images without encryption, each as HOST or HOST:PORT; "+
		"those on this machine always are")
	flags.StringVar(&f.images.Credentials, "registry-credentials", "", "file with the credentials for registries of images, in the format of Docker's config.json")
	d.lastFlags(flags)
	add(command, "", resetTermCommand(&a.Caller))
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := d.merge(command); err != nil {
			return err
		}
		config, err := f.config(command.Context(), d)
		if err != nil {
			return err
		}
		config.Flags = shownFlags(command.Flags())
		return d.serve(command.Context(), func(ctx context.Context) error { return runAgent(ctx, config) })
	}
	return command
}

// check reports everything that is wrong with plain numbers and times. A value that a configuration takes for "the
// default" or "none" is refused, because nobody who writes it means that.
func (f *agentFlags) check() error {
	var wrong []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	refuse(f.port < 0 || f.port > 65535, "--http-port is %d; ports are 1 to 65535, and 0 is none", f.port)
	refuse(f.recovery < 0, "--recovery-timeout is %v; write a time such as 15m, or 0 for not at all", f.recovery)
	for _, time := range []struct {
		name string
		is   time.Duration
	}{{"executor-timeout", f.executor}, {"executor-idle", f.idle}, {"sandbox-age", f.keep}} {
		refuse(time.is <= 0, "--%s is %v; write a time above zero, such as 5s", time.name, time.is)
	}
	refuse(f.keepMax < 1, "--sandboxes-max is %d; write how many, 1 or more", f.keepMax)
	refuse(f.execMax < 0, "--exec-max is %d; write how many, or 0 for none", f.execMax)
	refuse(f.walls.PidsMax < 0, "--task-pids is %d; write how many, or 0 for any number", f.walls.PidsMax)
	if len(wrong) == 0 {
		return nil
	}
	return caller.Usage(errors.Join(wrong...))
}

// offered reads the resources that the agent is to offer; zero stands for what the machine has.
func offered(flag, text string) (api.Resources, error) {
	resources, err := settings.ParseResources(text)
	if err != nil {
		return resources, fmt.Errorf("--%s: %w", flag, err)
	}
	if resources.IsZero() && strings.TrimSpace(text) != "" {
		return resources, fmt.Errorf("--%s is %q, which is nothing; name some, or leave it out and offer what the machine has", flag, text)
	}
	return resources, nil
}

func (f agentFlags) config(ctx context.Context, d *daemon) (agent.Config, error) {
	if err := f.check(); err != nil {
		return agent.Config{}, err
	}
	resources, err := offered("resources", f.resources)
	if err != nil {
		return agent.Config{}, caller.Usage(err)
	}
	keepSize, err := megabytes("sandboxes-size", f.keepSize)
	if err != nil {
		return agent.Config{}, err
	}
	output, err := megabytes("output-max", f.output)
	if err != nil {
		return agent.Config{}, err
	}
	output = cmp.Or(output, -1)
	if f.images.BytesMax, err = megabytes("image-cache", f.imageCache); err != nil {
		return agent.Config{}, err
	}
	masters, err := d.app.MastersOr(nil)
	if err != nil {
		return agent.Config{}, err
	}
	self, err := commandExecutor()
	if err != nil {
		return agent.Config{}, err
	}
	taskUser, err := taskUserOr(f.taskUser)
	if err != nil {
		return agent.Config{}, err
	}
	f.walls.PidsMax = cmp.Or(f.walls.PidsMax, -1)
	if f.walls.Rlimits, err = entry.ParseRlimits(f.walls.rlimits); err != nil {
		return agent.Config{}, caller.Usagef("--task-rlimit: %w", err)
	}
	if f.walls.GPUs, err = walls.NameGPUs(f.walls.gpus); err != nil {
		return agent.Config{}, caller.Usagef("--gpu-device: %w", err)
	}
	token, err := d.agentToken(ctx, masters)
	if err != nil {
		return agent.Config{}, err
	}
	log, err := d.logger()
	if err != nil {
		return agent.Config{}, err
	}
	if d.insecure {
		log.Warn().Msg("--insecure: nothing is encrypted, and this agent obeys whoever answers as its master")
	}
	return agent.Config{
		Masters: masters, Token: token, DataDir: d.dataDir, Hostname: f.hostname, Bind: d.bind, Port: orNone(f.port), Advertise: d.advertise,
		Resources: resources, Attributes: f.attributes, Region: f.region, Zone: f.zone,
		RecoveryTimeout: atOnce(f.recovery), ExecutorTimeout: f.executor, ExecutorIdle: f.idle,
		Programs: agent.Programs{CommandExecutor: self, Path: f.path, Enter: enterHelper(self), ExecMax: f.execMax, AuditLog: f.audit},
		Keep:     agent.Keep{SandboxAge: f.keep, SandboxesMax: f.keepMax, SandboxBytesMax: keepSize, OutputBytesMax: output},
		Walls:    f.walls.Config,
		Users:    agent.Users{TaskUser: taskUser, TaskUsers: f.taskUsers, FetchLocal: f.fetchLocal, Images: f.images},
		Logger:   log.Logger, World: agent.World{OpenHTTP: d.openHTTP, Nearby: d.nearby(), LogWritten: log.written, LogLevel: log.level},
	}, nil
}

// nearby returns the users whose clusters of `tender dev` the agent may have joined; none if masters are not reached
// over this machine's network.
func (d *daemon) nearby() nearby.Users {
	if d.app.Dial != nil {
		return nil
	}
	return nearby.UsersOf(d.app.Lookup)
}

// agentToken returns the token with which the agent joins: the one of --join, else one that the cluster of `tender dev`
// on this machine makes for it. It is "" if the agent needs none.
func (d *daemon) agentToken(ctx context.Context, masters []string) (string, error) {
	if d.join != "" {
		joined, err := tokenOf(d.join)
		switch {
		case err == nil:
			return joined.String(), nil
		case !d.hasProof(): // otherwise it has joined already, and the token may be gone
			return "", err
		}
	}
	if d.insecure || d.hasProof() {
		return "", nil
	}
	token, err := tokenBesideDev(ctx, &d.app.Caller, masters, dev.AgentsToken)
	if err == nil && token == "" {
		err = caller.Usagef("this agent has no certificate yet: say --join FILE (an operator makes one: tender token create agent -o FILE), " +
			"or --insecure if its cluster runs so, on a trusted network")
	}
	return token, err
}

// shownFlags returns all flags with their values, except secret ones.
func shownFlags(flags *pflag.FlagSet) map[string]string {
	shown := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		for _, secret := range []string{"token", "secret", "key", "password"} {
			if value != "" && strings.Contains(f.Name, secret) {
				value = "(not shown)"
			}
		}
		shown[f.Name] = trust.Redact(value) // a token may stand behind --join, where the name of its file should
	})
	return shown
}

// megabytes reads a flag in MB and returns bytes.
func megabytes(flag, text string) (int64, error) {
	amount, err := api.ParseMilli(text)
	if err != nil || amount < 0 {
		return 0, caller.Usagef("--%s is %q; write how many MB, such as 64 or 0.5", flag, text)
	}
	return int64(amount) << 20 / 1000, nil
}

// taskUserOr returns the user that tasks run as: the one that the flag names, else an unprivileged user if the agent
// runs as root, else "".
func taskUserOr(named string) (string, error) {
	if named != "" || os.Geteuid() != 0 {
		return named, nil
	}
	if user := entry.Unprivileged(); user != "" {
		return user, nil
	}
	return "", caller.Usagef("this agent runs as root, and the machine has no unprivileged user for tasks, neither of the numbers from %d on nor nobody; "+
		"name one by --task-user, or say --task-user root", entry.DynamicFirst)
}

// orNone turns port 0 into the negative port with which configurations say "none".
func orNone(port int) int {
	if port == 0 {
		return -1
	}
	return port
}

// commandExecutor returns the command line that starts this program as the built-in executor.
func commandExecutor() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the path of this program is unknown: %w", err)
	}
	return []string{self, "executor"}, nil
}

// enterHelper returns the command line that starts this program as the helper that enters a task.
func enterHelper(executor []string) []string { return []string{executor[0], "enter"} }

// execMaxDefault is the default for how many commands may run inside an agent's tasks.
const execMaxDefault = 16

func runAgent(ctx context.Context, config agent.Config) error {
	a, err := agent.New(config)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// enterCommand is the command that agents start to enter a task.
func enterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "enter", Short: "The helper by which a command gets into a task; agents start it", Hidden: true, Args: caller.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			signals := make(chan os.Signal, 16)
			signal.Notify(signals, inside.Passed...)
			return inside.Enter(signals)
		},
	}
}

// executorCommand is the command that agents start for tasks that are commands.
func executorCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use: "executor", Short: "The built-in executor for commands; agents start it", Hidden: true, Args: caller.Exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			told, _ := who.Lookup(protocol.ExecutorCellEnv) // without the variable there are no control groups
			return givingBack(command.Context(), func(ctx context.Context) error { return commands.Run(ctx, told) })
		},
	}
}
