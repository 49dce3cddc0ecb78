package translate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/envelope"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

const (
	// killGrace is how long Mesos's own executors give a killed task that names no time.
	killGrace = 3 * time.Second
	// ownKillGrace is how long an executor of a framework's own may take for it. Mesos sets it no limit, and Tender ends
	// an executor for a task that does not end.
	ownKillGrace = 10 * time.Minute
)

// Launch is what is needed beside a task's own description to launch it.
type Launch struct {
	// Framework has the ID that it was given.
	Framework *mesosv1.FrameworkInfo
	// Adapter describes the program that runs old executors, without ID and resources.
	Adapter api.Command
	// Group has the IDs of all tasks of the task's group.
	Group []string
	// Executor is the executor of the task's group; nil without a group.
	Executor *mesosv1.ExecutorInfo
}

// ReadTask reads a task. The error says, in Mesos's words where it has some, why the task can't run here.
func (l Launch) ReadTask(info *mesosv1.TaskInfo) (api.Task, error) {
	task := api.Task{
		ID: ReadTaskID(info.GetTaskId()), Name: info.GetName(), Labels: Labels(info.GetLabels()),
		KillGrace: killGrace, MaxCompletionTime: time.Duration(info.GetMaxCompletionTime().GetNanoseconds()),
	}
	if grace := info.GetKillPolicy().GetGracePeriod(); grace != nil {
		task.KillGrace = max(time.Duration(grace.GetNanoseconds()), 1)
	}
	var err error
	if task.Resources, err = ReadResources(info.GetResources()); err != nil {
		return task, fmt.Errorf("Task uses invalid resources: %w", err) //nolint:staticcheck // Mesos's words
	}
	if task.Resources.IsZero() {
		return task, errors.New("Task uses no resources") //nolint:staticcheck // Mesos's words
	}
	executor := info.GetExecutor()
	if l.Executor.GetType() == mesosv1.ExecutorInfo_CUSTOM {
		executor = l.Executor
	}
	switch {
	case (info.GetExecutor() == nil) == (info.GetCommand() == nil) && l.Executor == nil && info.GetContainer() == nil:
		//nolint:staticcheck // Mesos's words
		return task, errors.New("Task should have at least one (but not both) of CommandInfo or ExecutorInfo present")
	case executor != nil:
		err = l.readExecutor(&task, info, executor)
	default:
		err = l.readCommand(&task, info)
	}
	if err != nil {
		return task, err
	}
	if err := readPorts(&task, info.GetDiscovery()); err != nil {
		return task, err
	}
	return task, task.Check()
}

// readExecutor has the task run by an executor of the framework's own, below the adapter.
func (l Launch) readExecutor(task *api.Task, info *mesosv1.TaskInfo, executor *mesosv1.ExecutorInfo) error {
	if executor.GetFrameworkId() != nil && executor.GetFrameworkId().GetValue() != l.Framework.GetId().GetValue() {
		return fmt.Errorf("ExecutorInfo has an invalid FrameworkID (Actual: %s vs Expected: %s)",
			executor.GetFrameworkId().GetValue(), l.Framework.GetId().GetValue())
	}
	if executor.GetType() == mesosv1.ExecutorInfo_DEFAULT {
		return errors.New("'ExecutorInfo.type' DEFAULT is for task groups")
	}
	if executor.GetCommand() == nil {
		return errors.New("'ExecutorInfo.command' must be set for 'CUSTOM' executor")
	}
	if err := CheckExecutorContainer(executor.GetContainer()); err != nil {
		return err
	}
	resources, err := ReadResources(executor.GetResources())
	if err != nil {
		return fmt.Errorf("Executor uses invalid resources: %w", err) //nolint:staticcheck // Mesos's words
	}
	if info.GetKillPolicy().GetGracePeriod() == nil {
		task.KillGrace = ownKillGrace
	}
	command := l.Adapter
	command.User = userOf(executor.GetCommand())
	task.Executor = &api.Executor{
		ID: ReadExecutorID(executor.GetExecutorId()), Command: command, Resources: resources,
		ShutdownGrace: time.Duration(executor.GetShutdownGracePeriod().GetNanoseconds()), Labels: Labels(executor.GetLabels()),
	}
	whole := proto.CloneOf(info)
	whole.Executor = executor
	task.Data, err = proto.Marshal(&envelope.Launch{Task: whole, Framework: l.Framework, Group: l.Group})
	return err
}

// userOf returns the user that a command names by itself. FrameworkInfo.user is not taken: every old framework names
// one, and agents choose users for frameworks here.
func userOf(command *mesosv1.CommandInfo) string { return command.GetUser() }

// readCommand has the task run by the executor that comes with Tender.
func (l Launch) readCommand(task *api.Task, info *mesosv1.TaskInfo) error {
	if err := checkContainer(info.GetContainer()); err != nil {
		return err
	}
	if err := l.checkDefaultExecutor(); err != nil {
		return err
	}
	task.Image = containerImage(info.GetContainer())
	command := info.GetCommand()
	env, err := environment(task, command.GetEnvironment())
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"MESOS_TASK_ID": info.GetTaskId().GetValue(), "MESOS_FRAMEWORK_ID": l.Framework.GetId().GetValue(),
		"MESOS_EXECUTOR_ID": info.GetTaskId().GetValue(), "MESOS_AGENT_ID": info.GetAgentId().GetValue(), "MESOS_SLAVE_ID": info.GetAgentId().GetValue(),
	} {
		env[name] = value
	}
	task.Command = &api.Command{Env: env, User: userOf(command)}
	before := volumeLinks(info.GetResources())
	mounts, err := l.mounts(task, info.GetContainer().GetVolumes())
	if err != nil {
		return err
	}
	limits, err := limit(info.GetContainer().GetRlimitInfo())
	if err != nil {
		return err
	}
	before += mounts + limits
	remote := slices.ContainsFunc(command.GetUris(), isRemote)
	switch {
	case remote && task.Image != "": // it does not see the program that fetches
		return unsupported("a URI of another machine for a task in an image")
	case remote:
		fetch, err := l.fetch(command)
		if err != nil {
			return err
		}
		before = fetch + before
	default:
		for _, uri := range command.GetUris() {
			task.Command.URIs = append(task.Command.URIs, readURI(uri))
		}
	}
	if err := program(task, command, before); err != nil {
		return err
	}
	if info.GetContainer().GetTtyInfo() != nil {
		if task.Image != "" {
			return unsupported("a terminal for a task in an image")
		}
		l.giveTerminal(task.Command)
	}
	if limits := info.GetLimits(); len(limits) > 0 {
		for name, amount := range limits {
			switch name {
			case "cpus":
				task.Limits.CPUs = api.MilliOf(min(amount.GetValue(), api.MilliMax.Float()))
			case "mem":
				task.Limits.Mem = api.MilliOf(min(amount.GetValue(), api.MilliMax.Float()))
			default:
				return unsupported("a limit of " + name)
			}
		}
	}
	return readChecks(task, info)
}

// giveTerminal has the command run in a terminal to which clients attach.
func (l Launch) giveTerminal(command *api.Command) {
	argv := command.Argv
	if command.Shell != "" {
		argv = []string{"/bin/sh", "-c", command.Shell}
	}
	command.Shell, command.Argv = "", slices.Concat(l.Adapter.Argv, []string{"terminal", "--"}, argv)
}

// sandbox makes the variables that tell where the sandbox is, which nobody knows before the task is there.
const sandbox = `export MESOS_SANDBOX="$PWD" MESOS_DIRECTORY="$PWD"; `

// program says what is run. links are commands that put volumes where the framework wants them.
func program(task *api.Task, command *mesosv1.CommandInfo, links string) error {
	value, arguments := command.GetValue(), command.GetArguments()
	switch {
	case value == "" && task.Image == "":
		return errors.New("Command task should have a 'value'") //nolint:staticcheck // Mesos's way to say it
	case value == "" && len(arguments) > 0: // the image's entrypoint with these; argv[0] is replaced by it
		task.Command.Argv = arguments[1:]
	case value == "": // what the image says
	case command.GetShell():
		task.Command.Shell = sandbox + links + value
	case task.Image != "": // the value replaces the image's entrypoint
		words := []string{quote(value)}
		for _, argument := range argumentsOf(arguments) {
			words = append(words, quote(argument))
		}
		task.Command.Shell = sandbox + links + "exec " + strings.Join(words, " ")
	default:
		task.Command.Argv = append([]string{"/bin/sh", "-c", sandbox + links + `exec "$@"`, "sh", value}, argumentsOf(arguments)...)
	}
	return nil
}

// argumentsOf leaves out argv[0], which Mesos's frameworks list too.
func argumentsOf(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	return argv[1:]
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// environment returns the variables of a command. Those that hold secrets are the task's.
func environment(task *api.Task, environment *mesosv1.Environment) (map[string]string, error) {
	env := make(map[string]string)
	for _, variable := range environment.GetVariables() {
		if variable.GetType() != mesosv1.Environment_Variable_SECRET {
			env[variable.GetName()] = variable.GetValue()
			continue
		}
		id, err := secretOf(variable.GetSecret())
		if err != nil {
			return nil, err
		}
		task.Secrets = append(task.Secrets, api.Secret{ID: id, Env: variable.GetName()})
	}
	return env, nil
}

// archives are the names of files that Mesos's fetcher unpacks, as far as Tender's does.
var archives = []string{".tar", ".tar.gz", ".tgz", ".zip"}

func readURI(uri *mesosv1.CommandInfo_URI) api.URI {
	one := api.URI{Source: uri.GetValue(), Name: uri.GetOutputFile(), Executable: uri.GetExecutable()}
	if uri.GetExtract() && !uri.GetExecutable() {
		one.Extract = slices.ContainsFunc(archives, func(end string) bool { return strings.HasSuffix(uri.GetValue(), end) })
	}
	return one
}

// isRemote says whether a URI names a file of another machine.
func isRemote(uri *mesosv1.CommandInfo_URI) bool {
	scheme, _, named := strings.Cut(uri.GetValue(), "://")
	return named && scheme != "file"
}

// fetch is a command by which a task brings its files itself. Agents bring no file of another machine without its
// checksum, which Mesos's frameworks can't name.
func (l Launch) fetch(command *mesosv1.CommandInfo) (string, error) {
	files, err := codec.JSON.Marshal(&mesosv1.CommandInfo{Uris: command.GetUris()})
	if err != nil {
		return "", err
	}
	var words []string
	for _, word := range append(slices.Clone(l.Adapter.Argv), "fetch", string(files)) {
		words = append(words, quote(word))
	}
	return strings.Join(words, " ") + " || exit 1; ", nil
}

// readPorts names the ports of the discovery info that are among the task's resources.
func readPorts(task *api.Task, discovery *mesosv1.DiscoveryInfo) error {
	asked := task.Resources.RangesOf("ports")
	for _, port := range discovery.GetPorts().GetPorts() {
		number, name := uint64(port.GetNumber()), port.GetName()
		if !asked.Contains(api.Ranges{{Begin: number, End: number}}) || api.CheckPortName(name) != nil {
			continue // it is told to nobody who could miss it: discovery info is for people's own tools
		}
		if task.Ports == nil {
			task.Ports = make(map[string]uint16)
		}
		task.Ports[name] = uint16(number)
	}
	return nil
}

// portOf returns the name of a port that a check connects to.
func portOf(task *api.Task, number uint32) string {
	for name, have := range task.Ports {
		if uint32(have) == number {
			return name
		}
	}
	name := fmt.Sprintf("port-%d", number)
	if task.Ports == nil {
		task.Ports = make(map[string]uint16)
	}
	task.Ports[name] = uint16(number)
	return name
}

// probe is what a health check and a check have in common.
type probe struct {
	what            string // as Mesos calls it
	kind            string
	command         *mesosv1.CommandInfo
	http, tcp       *uint32 // the port; nil: it is not set
	path            string
	delay, interval float64 // in seconds
	timeout         float64 // in seconds
}

// forever is the timeout of a check that has none.
const forever = time.Hour

// read returns the check. What a command's check may say beside the command is left out, as Mesos does.
func (p probe) read(task *api.Task) (check api.Check, err error) {
	for _, one := range []struct {
		name  string
		value float64
	}{{"delay_seconds", p.delay}, {"interval_seconds", p.interval}, {"timeout_seconds", p.timeout}} {
		if one.value < 0 || math.IsNaN(one.value) {
			return check, fmt.Errorf("Expecting '%s' to be non-negative", one.name) //nolint:staticcheck // Mesos's words
		}
	}
	check.Interval, check.Timeout, check.Grace = seconds(p.interval), seconds(p.timeout), seconds(p.delay)
	if p.timeout == 0 {
		check.Timeout = forever
	}
	unset := func() error {
		return fmt.Errorf("Expecting '%s' to be set for %s %s", strings.ToLower(p.kind), p.kind, p.what) //nolint:staticcheck // Mesos's words
	}
	switch {
	case p.kind == "COMMAND" && p.command == nil, p.kind == "HTTP" && p.http == nil, p.kind == "TCP" && p.tcp == nil:
		return check, unset()
	case p.kind == "COMMAND" && p.command.Value == nil:
		return check, fmt.Errorf("Command %s must contain %s", p.what, map[bool]string{true: "'shell command'", false: "'executable path'"}[p.command.GetShell()]) //nolint:staticcheck // as above
	case p.kind == "COMMAND":
		check.Command, err = checkCommand(task, p.command)
	case p.kind == "HTTP" && p.path != "" && p.path[0] != '/':
		return check, fmt.Errorf("The path '%s' of HTTP %s must start with '/'", p.path, p.what) //nolint:staticcheck // as above
	case p.kind == "HTTP":
		check.HTTP = &api.HTTPCheck{Port: portOf(task, *p.http), Path: p.path}
	case p.kind == "TCP":
		check.TCP = &api.TCPCheck{Port: portOf(task, *p.tcp)}
	default:
		return check, fmt.Errorf("'%s' is not a valid %s type", p.kind, p.what)
	}
	return check, err
}

func readChecks(task *api.Task, info *mesosv1.TaskInfo) error {
	if health := info.GetHealthCheck(); health != nil {
		if health.Type == nil {
			return errors.New("HealthCheck must specify 'type'")
		}
		if grace := health.GetGracePeriodSeconds(); grace < 0 {
			return errors.New("Expecting 'grace_period_seconds' to be non-negative") //nolint:staticcheck // Mesos's words
		}
		p := probe{
			what: "health check", kind: health.GetType().String(), command: health.GetCommand(), path: health.GetHttp().GetPath(),
			delay: health.GetDelaySeconds(), interval: health.GetIntervalSeconds(), timeout: health.GetTimeoutSeconds(),
		}
		if http := health.GetHttp(); http != nil {
			p.http = http.Port
			if scheme := http.GetScheme(); scheme != "" && scheme != "http" {
				return unsupported("a health check over " + scheme)
			}
		}
		if tcp := health.GetTcp(); tcp != nil {
			p.tcp = tcp.Port
		}
		check, err := p.read(task)
		if err != nil {
			return err
		}
		check.Grace, check.Failures = seconds(health.GetGracePeriodSeconds()+health.GetDelaySeconds()), max(int(health.GetConsecutiveFailures()), 1)
		task.Checks = append(task.Checks, check)
	}
	observed := info.GetCheck()
	if observed == nil {
		return nil
	}
	if observed.Type == nil {
		return errors.New("CheckInfo must specify 'type'")
	}
	p := probe{
		what: "check", kind: observed.GetType().String(), path: observed.GetHttp().GetPath(),
		delay: observed.GetDelaySeconds(), interval: observed.GetIntervalSeconds(), timeout: observed.GetTimeoutSeconds(),
	}
	if command := observed.GetCommand(); command != nil {
		p.command = command.GetCommand()
	}
	if http := observed.GetHttp(); http != nil {
		p.http = http.Port
	}
	if tcp := observed.GetTcp(); tcp != nil {
		p.tcp = tcp.Port
	}
	check, err := p.read(task)
	check.Observing = true
	task.Checks = append(task.Checks, check)
	return err
}

func checkCommand(task *api.Task, command *mesosv1.CommandInfo) (*api.Command, error) {
	env, err := environment(task, command.GetEnvironment())
	if err != nil {
		return nil, err
	}
	if command.GetShell() {
		return &api.Command{Shell: command.GetValue(), Env: env}, nil
	}
	return &api.Command{Argv: append([]string{command.GetValue()}, argumentsOf(command.GetArguments())...), Env: env}, nil
}

func seconds(s float64) time.Duration {
	return max(time.Duration(min(s, 1e9)*float64(time.Second)), api.CheckIntervalMin)
}
