package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/run"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// runFlags are the flags of `tender run`.
type runFlags struct {
	name, role            string
	cpus, mem, disk, gpus string
	resources             string
	instances             int
	env, constraints      []string
	volumes               []string
	labels                map[string]string
	shell, retry, quiet   bool
	revocable             bool
	user, image, dir      string
	placeFlags
	lifeFlags
}

// placeFlags say where tasks run, and what they find there.
type placeFlags struct {
	uris, ports, prefer []string

	secrets, secretFiles []string
	spread               string
}

// lifeFlags say how long tasks run, and when they are started again.
type lifeFlags struct {
	restart, killSignal                 string
	detach, grace, timeout, unreachable time.Duration
	checks, limits                      []string
}

func runCommand(who *caller.Caller) *cobra.Command {
	var f runFlags
	command := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command on the cluster and show its output here",
		Long: "Run a command as one task or many. Their stdout and stderr appear here as they are written, and this command exits with\n" +
			"their exit code (see 'tender help exit-codes'). Ctrl-C ends the tasks. When this command is killed (SIGKILL) or can't reach\n" +
			"the masters any more, its tasks live on for " + run.OutlivesRun.String() + " at most. The environment of a task is what --env gives it.\n\n" +
			"Agents never promise more than they have. On an agent with control groups (its attribute 'isolation' lists them), a task\n" +
			"that needs more memory than it asked for fails (MEMORY_LIMIT), and when processors are short, tasks share them in\n" +
			"proportion to the cpus that they asked for. A task whose sandbox needs more disk than it asked for fails (DISK_LIMIT).\n" +
			"GPUs are given whole; TENDER_TASK_GPUS and CUDA_VISIBLE_DEVICES tell a task which ones it has.",
		Example: "  tender run -- sh -c 'echo out; echo err >&2; exit 3'\n" +
			"  tender run --instances 50 --cpus 0.1 -- hostname\n" +
			"  tender run --shell -- 'ls | wc -l'",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 && f.image == "" {
				return caller.Usagef("'tender run' needs a command; write 'tender run -- COMMAND'")
			}
			return nil
		},
	}
	f.addTo(command.Flags())
	completeFlags(who, command)
	command.RunE = func(command *cobra.Command, args []string) error {
		task, err := f.task(args, who.Lookup)
		if err = errors.Join(saidEmpty(command.Flags()), saidZero(command.Flags()), err); err != nil {
			return caller.Usage(err)
		}
		given := command.Flags().Changed("role")
		return who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := f.takeVolumes(ctx, c, given, &task); err != nil {
				return err
			}
			preferred, err := f.preferred(ctx, c)
			if err != nil {
				return err
			}
			return runTasks(ctx, who, c, f, task, preferred)
		})(command, args)
	}
	return command
}

// addTo adds the flags to those of the command, in the order in which its help shows them.
func (f *runFlags) addTo(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.SetInterspersed(false)
	flags.StringVar(&f.name, "name", "", "name of the framework; the IDs of its tasks begin with it (default: the name of the command)")
	flags.IntVarP(&f.instances, "instances", "n", 1, "how many tasks to run")
	flags.StringVar(&f.cpus, "cpus", "0.1", "processors for each task")
	flags.StringVar(&f.mem, "mem", "32", "memory for each task, in MB")
	flags.StringVar(&f.disk, "disk", "0", "disk for each task, in MB")
	flags.StringVar(&f.gpus, "gpus", "0", "GPUs for each task, a whole number")
	flags.StringVar(&f.resources, "resources", "", "further resources for each task, such as 'licenses:1'")
	flags.StringArrayVar(&f.volumes, "volume", nil, "persistent volume, which the task finds in its sandbox as volumes/VOLUME; repeatable")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "environment variable of the tasks, as NAME=VALUE; NAME alone takes the value that it has here; repeatable")
	flags.StringArrayVar(&f.secrets, "secret", nil, "NAME=ROLE/NAME: environment variable with the value of a secret ('tender secret set'); repeatable")
	flags.StringArrayVar(&f.secretFiles, "secret-file", nil, "NAME=ROLE/NAME: file secrets/NAME in the sandbox, held in memory, with the value of a secret; repeatable")
	flags.StringVar(&f.role, "role", string(api.DefaultRole), "role whose share of the cluster the tasks use")
	flags.StringArrayVar(&f.constraints, "constraint", nil, "use only agents for which this is true, such as 'attributes[\"rack\"] == \"r1\"'; repeatable")
	flags.StringToStringVar(&f.labels, "label", nil, "label of the tasks, as NAME=VALUE; repeatable")
	flags.StringArrayVar(&f.uris, "uri", nil, "file to fetch into the sandbox of each task: SOURCE[,name=NAME][,sha256=HEX][,executable][,extract]; repeatable")
	flags.StringArrayVar(&f.ports, "port", nil, "port of the agent for each task, as NAME[=NUMBER]; without NUMBER any free one; the task finds it in $TENDER_TASK_PORT_NAME; repeatable")
	flags.StringArrayVar(&f.prefer, "prefer", nil, "agent to use first while it has room: its ID, its hostname or the start of its ID; repeatable")
	flags.StringVar(&f.spread, "spread", "", "spread the tasks over as many agents, zones, regions or values of an attribute as possible: agent, zone, region or attribute:NAME")
	flags.StringVar(&f.restart, "restart", "", "how many times to start a failed task again; always = start a task again whenever it ends")
	flags.DurationVar(&f.detach, "detach", 0, "return as soon as agents have accepted all tasks, and print their names; they may run on for this long (--detach\n"+
		"alone: 168h), but nobody starts them again when they fail; 'tender teardown' ends them earlier")
	flags.Lookup("detach").NoOptDefVal = "168h"
	flags.DurationVar(&f.grace, "grace", 0, "time between SIGTERM and SIGKILL when a task is ended (default 5s)")
	flags.StringVar(&f.killSignal, "kill-signal", "", "signal that asks a task to end, such as SIGINT (default: the one that its image names, or SIGTERM)")
	flags.DurationVar(&f.timeout, "timeout", 0, "end a task that has run for this long; it counts as FAILED (default: no limit)")
	flags.StringArrayVar(&f.checks, "check", nil, "health check, as [OPTION,...]KIND:WHAT: http:PORT/PATH, tcp:PORT or grpc:PORT[/SERVICE] for a port that --port names,\n"+
		"or shell:LINE; a task that fails it three times in a row is killed and counts as FAILED; options are interval=10s,\n"+
		"timeout=5s, grace=15s, failures=3, and ready, which only reports and never kills; repeatable")
	flags.StringArrayVar(&f.limits, "limit", nil, "upper limit for each task, as cpus=NUMBER, mem=MB or pids=NUMBER, on agents that can enforce it; repeatable")
	flags.StringVar(&f.user, "user", "", "user as whom the tasks run; their agents must allow it (default: the agents decide)")
	flags.StringVar(&f.dir, "dir", "", "folder in which the tasks begin: below the sandbox, or an absolute path (default: the sandbox, or what the image says)")
	flags.StringVar(&f.image, "image", "", "OCI image in which the tasks run, such as docker.io/library/alpine:3.20; COMMAND is passed to its entrypoint, and without\n"+
		"COMMAND the image's own command runs; only on agents whose attribute 'isolation' lists images")
	flags.BoolVar(&f.shell, "shell", false, "treat COMMAND as one line for /bin/sh")
	flags.BoolVar(&f.retry, "retry", false, "start a task again that has not ended by itself: its agent was lost, drained or gone, or it was preempted or revoked")
	flags.DurationVar(&f.unreachable, "unreachable-timeout", time.Minute, "with --retry: start a task elsewhere when it has been UNREACHABLE for this long; 0 = never")
	flags.BoolVar(&f.revocable, "revocable", false, "use cpus and mem that other tasks have but do not use; a task is killed (REVOKED) when they need them")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing except the output of the tasks, and errors")
}

func runTasks(ctx context.Context, who *caller.Caller, c *client.Client, f runFlags, task api.Task, preferred []api.AgentID) error {
	restarts, err := f.restarts()
	if err != nil {
		return caller.Usage(err)
	}
	code, err := run.Run(ctx, run.Config{
		Masters: c.Masters(), Operator: c.Operator(), Dial: c.DialMaster, Agents: run.Agents{Dial: c.DialAgent, Ticket: c.ReadTicket},
		Name: task.Name, Role: api.Role(f.role), Task: task,
		Instances: f.instances, Constraint: conjunction(f.constraints), Retry: f.retry, Unreachable: f.unreachable, Revocable: f.revocable,
		Preferred: preferred, Spread: api.Place(f.spread), Restart: restarts, Detach: f.detach,
		Stdout: who.Stdout, Stderr: who.Stderr, Teller: run.Teller{Say: who.SayUnless(f.quiet), Warn: who.SayUnless(false)}, Progress: who.Terminal && !f.quiet,
	})
	var stop interrupted
	pending := (*run.Pending)(nil)
	switch tooLarge := (*run.TooLarge)(nil); {
	case errors.As(err, &pending):
		return caller.Failure{Code: caller.Pending, Err: err}
	case errors.As(err, &tooLarge):
		return caller.Failure{Code: caller.WrongUsage, Err: err}
	case err != nil:
		return err
	case errors.As(context.Cause(ctx), &stop):
		return caller.Failure{Code: signalCode(stop.signal)}
	case code != 0:
		return caller.Failure{Code: code}
	}
	return nil
}

func attachCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "attach FRAMEWORK",
		Short: "Follow the tasks of a run that was started with --detach",
		Long: "Print the output of all tasks that a framework has had, from its beginning, until all of them have ended. This is for a\n" +
			"run that was started with --detach. FRAMEWORK is its ID or name, or any unique start of one.\n\n" +
			"The exit code is that of the first task that failed, or 0 if none did. Ctrl-C only stops the output; the tasks go on.\n" +
			"'tender teardown FRAMEWORK' ends them.",
		Example:           "  tender attach nightly",
		Args:              caller.Exactly("FRAMEWORK"),
		ValidArgsFunction: completeIDs(who, "frameworks"),
	}
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		framework, err := nouns.Frameworks.Find(ctx, c, args[0])
		if err != nil {
			return err
		}
		code, err := run.Attach(ctx, run.Attached{
			Operator: c.Operator(), Watch: c.Watch, Agents: run.Agents{Dial: c.DialAgent, Ticket: c.ReadTicket},
			Framework: api.FrameworkID(framework.ID), Stdout: who.Stdout, Stderr: who.Stderr, Say: who.SayUnless(false),
		})
		var stop interrupted
		switch {
		case errors.As(context.Cause(ctx), &stop):
			return caller.Failure{Code: signalCode(stop.signal)}
		case err != nil:
			return err
		case code != 0:
			return caller.Failure{Code: code}
		}
		return nil
	})
	return command
}

// task returns what each instance runs, or everything that is wrong with the flags.
func (f *runFlags) task(args []string, lookup func(string) (string, bool)) (api.Task, error) {
	resources, err := f.allResources()
	env, err2 := environment(f.env, lookup)
	task := api.Task{Name: f.nameOr(args), Resources: resources, KillGrace: f.grace, KillSignal: f.killSignal, MaxCompletionTime: f.timeout, Labels: f.labels}
	task.Command = &api.Command{Argv: args, Env: env, User: f.user, Dir: f.dir}
	if f.shell {
		task.Command = &api.Command{Shell: strings.Join(args, " "), Env: env, User: f.user, Dir: f.dir}
	}
	for _, text := range f.uris {
		uri, wrong := settings.ParseURI(text)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("--uri: %w", wrong))
		}
		task.Command.URIs = append(task.Command.URIs, uri)
	}
	for _, text := range f.checks {
		check, wrong := settings.ParseCheck(text)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("--check: %w", wrong))
		}
		task.Checks = append(task.Checks, check)
	}
	if task.Image = f.image; f.image != "" {
		f.constraints = append(f.constraints, api.ImageConstraint)
	}
	limits, wrong := settings.ParseLimits(f.limits)
	if wrong != nil {
		err = errors.Join(err, fmt.Errorf("--limit: %w", wrong))
	}
	task.Limits = limits
	if task.Secrets, wrong = settings.ParseSecrets(f.secrets, f.secretFiles); wrong != nil {
		err = errors.Join(err, fmt.Errorf("--secret: %w", wrong))
	}
	ports, wrong := settings.ParsePorts(f.ports)
	if wrong != nil {
		err = errors.Join(err, fmt.Errorf("--port: %w", wrong))
	}
	if len(ports) > 0 {
		task.Ports = ports
		task.Resources = task.Resources.Plus(settings.PortResources(ports))
	}
	if err = errors.Join(err, err2, api.Role(f.role).Check(), f.check(args)); err == nil {
		err = settings.JudgeTask(task)
	}
	return task, err
}

// saidEmpty refuses flags that are given with an empty text, as with a variable that is not set: leaving them out means
// something else.
func saidEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		list, is := f.Value.(pflag.SliceValue)
		if f.Value.Type() == "string" && f.Value.String() == "" || is && slices.Contains(list.GetSlice(), "") {
			err = errors.Join(err, fmt.Errorf("--%s is empty; write a value, or leave it out", f.Name))
		}
	})
	return err
}

// saidZero refuses flags that are given as zero where a job file refuses that too: for most, leaving them out means
// something else.
func saidZero(flags *pflag.FlagSet) (err error) {
	for _, field := range jobfile.Fields() {
		f := flags.Lookup(strings.TrimPrefix(field.Flag, "--"))
		switch {
		case f == nil || !f.Changed || f.Value.String() == "" || strings.Trim(f.Value.String(), "0.s") != "":
		case f.Name == "restart": // the attempts of a job file are one more
		case field.WrongZero() != "":
			err = errors.Join(err, fmt.Errorf("--%s: %s, or leave it out", f.Name, field.WrongZero()))
		}
	}
	if f := flags.Lookup("detach"); f.Changed && f.Value.String() == "0s" {
		err = errors.Join(err, errors.New("--detach is 0s; write for how long the tasks live on, such as 24h"))
	}
	return err
}

func (f *runFlags) check(args []string) error {
	switch {
	case f.shell && len(args) == 0:
		return errors.New("--shell needs a line; write 'tender run --image REFERENCE --shell -- LINE'")
	case len(args) > 0 && args[0] == "":
		return errors.New("the command is empty; write 'tender run -- COMMAND'")
	case f.instances < 0:
		return fmt.Errorf("--instances is %d; write 1 or more", f.instances)
	case f.grace < 0:
		return fmt.Errorf("--grace is %v; write a time such as 5s", f.grace)
	case f.timeout < 0:
		return fmt.Errorf("--timeout is %v; write a time such as 10m, or leave it out", f.timeout)
	case f.detach < 0:
		return fmt.Errorf("--detach is %v; write for how long the tasks live on, such as 24h", f.detach)
	case f.detach > 0 && (f.retry || f.restart != ""):
		return errors.New("--detach leaves nobody who could start a task again; leave --retry and --restart out")
	case f.spread != "" && api.Place(f.spread).Check() != nil:
		return fmt.Errorf("--spread: %w", api.Place(f.spread).Check())
	case f.unreachable < 0:
		return fmt.Errorf("--unreachable-timeout is %v; write a time such as 1m, or 0 to wait for ever", f.unreachable)
	case f.name != "":
		return api.CheckID("--name", f.name)
	}
	return nil
}

// restarts reads --restart.
func (f *lifeFlags) restarts() (int, error) {
	switch f.restart {
	case "":
		return 0, nil
	case "always":
		return -1, nil
	}
	n, err := strconv.Atoi(f.restart)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--restart is %q; write how often, or always", f.restart)
	}
	return n, nil
}

// preferred finds the agents that --prefer names.
func (f *placeFlags) preferred(ctx context.Context, c *client.Client) (ids []api.AgentID, err error) {
	for _, word := range f.prefer {
		found, err := nouns.Agents.Find(ctx, c, word)
		if err != nil {
			return nil, err
		}
		ids = append(ids, api.AgentID(found.ID))
	}
	return ids, nil
}

// takeVolumes adds the volumes that --volume names to what the task asks for. If no role is given, the task runs in the
// role of the first volume.
func (f *runFlags) takeVolumes(ctx context.Context, c *client.Client, roleGiven bool, task *api.Task) error {
	if len(f.volumes) == 0 {
		return nil
	}
	all, err := nouns.Volumes(ctx, c)
	if err != nil {
		return err
	}
	first := nouns.Volume{}
	for _, name := range f.volumes {
		found, err := nouns.VolumeNamed(all, name)
		if err != nil {
			return caller.Usage(err)
		}
		if first.Agent == "" {
			first = found
		}
		if !roleGiven {
			f.role, roleGiven = string(found.Resource.Reserved), true
		}
		if err := f.usable(found, first); err != nil {
			return caller.Usage(err)
		}
		task.Resources = task.Resources.Plus(api.NewResources(found.Resource))
	}
	if f.instances > 1 {
		return caller.Usagef("--instances is %d, but a volume is used by one task at a time", f.instances)
	}
	return nil
}

func (f *runFlags) usable(found, first nouns.Volume) error {
	switch owner := found.Resource.Reserved; {
	case found.Agent != first.Agent:
		return fmt.Errorf("volume %s is on agent %s, volume %s on agent %s; one task can't have both",
			first.Resource.Volume, first.Agent, found.Resource.Volume, found.Agent)
	case api.NewResources(found.Resource).UsableBy(api.Role(f.role)).IsZero():
		return fmt.Errorf("volume %s is of role %s, which role %s may not use; write --role %s", found.Resource.Volume, owner, f.role, owner)
	}
	return nil
}

func (f *runFlags) allResources() (api.Resources, error) {
	var all api.Resources
	var errs []error
	for _, flag := range []struct{ name, text, unit string }{
		{"cpus", f.cpus, ""}, {"mem", f.mem, ": MB, without a unit"}, {"disk", f.disk, ": MB, without a unit"}, {"gpus", f.gpus, ""},
	} {
		amount, err := api.ParseMilli(flag.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w%s", flag.name, err, flag.unit))
		}
		all = all.Plus(api.NewResources(api.Resource{Label: api.Label{Name: flag.name}, Scalar: amount}))
	}
	for part := range strings.SplitSeq(f.resources, ";") {
		more, err := settings.ParseResources(part)
		if err == nil && more.IsZero() && strings.Contains(part, ":") {
			err = fmt.Errorf("%q asks for nothing; write more than that, or leave it out", part)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--resources: %w", err))
		}
		all = all.Plus(more)
	}
	return all, errors.Join(errs...)
}

// environment reads NAME=VALUE, and NAME with the value that it has here.
func environment(pairs []string, lookup func(string) (string, bool)) (map[string]string, error) {
	env := map[string]string{}
	for _, pair := range pairs {
		name, value, given := strings.Cut(pair, "=")
		if !given {
			if value, given = lookup(name); !given {
				return nil, fmt.Errorf("--env: %q is not set here; write %s=VALUE", name, name)
			}
		}
		if name == "" || strings.ContainsAny(name, " \t\n\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("--env: %q is wrong; write NAME=VALUE", pair)
		}
		env[name] = value
	}
	return env, nil
}

// imageName returns the last part of an image's name, without tag and digest.
func imageName(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// nameOr makes a name from the command: the letters, digits, '-', '_' and '.' of its last part.
func (f *runFlags) nameOr(args []string) string {
	if f.name != "" {
		return f.name
	}
	if len(args) == 0 {
		args = []string{imageName(f.image)}
	}
	word, _, _ := strings.Cut(strings.TrimSpace(args[0]), " ")
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return '-'
	}, path.Base(word)), "-.")
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 100)]
}

// conjunction joins constraints that must all hold.
func conjunction(constraints []string) string {
	if len(constraints) < 2 {
		return strings.Join(constraints, "")
	}
	return "(" + strings.Join(constraints, ") && (") + ")"
}
