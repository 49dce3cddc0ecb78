package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/execpath"
	"github.com/tenderhq/tender/internal/mesos"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// Command is what an old executor is started with.
type Command struct {
	Argv    []string // of the first the program is looked for in PATH, unless it has a slash
	Env     []string
	Sandbox string    // the working folder
	URIs    []api.URI // fetched into the sandbox first
}

// Program is an old executor that was started.
type Program interface {
	PID() int
	// Wait returns when the program has ended, with its exit code, or 128 + the signal that ended it.
	Wait() int
	// Kill sends SIGKILL to the program and to what it has started. It may be called while Wait runs, and afterwards.
	Kill()
}

// command returns how the old executor is started.
func (a *adapter) command() Command {
	a.mu.Lock()
	defer a.mu.Unlock()
	info := a.whose.executor
	command := info.GetCommand()
	argv := []string{"/bin/sh", "-c", command.GetValue()}
	if !command.GetShell() {
		argv = slices.Clone(command.GetArguments())
		if len(argv) == 0 {
			argv = []string{command.GetValue()}
		}
		if command.GetValue() != "" {
			argv[0] = command.GetValue()
		}
	}
	return Command{Argv: argv, Env: a.environment(info), Sandbox: a.config.Executor.Sandbox, URIs: urisOf(command)}
}

// environment is what Mesos's agent gives an executor: its own environment, what says where the executor is, and what
// the executor's command asks for. Of Tender's variables it is left the one by which the agent finds strays.
func (a *adapter) environment(info *mesosv1.ExecutorInfo) []string {
	framework := a.whose.framework
	grace := executor.DefaultGrace
	if info.ShutdownGracePeriod != nil {
		grace = time.Duration(info.GetShutdownGracePeriod().GetNanoseconds())
	}
	var env []string
	for _, variable := range a.config.Environ {
		if strings.HasPrefix(variable, "TENDER_") && !strings.HasPrefix(variable, protocol.ExecutorSandboxEnv+"=") || strings.HasPrefix(variable, "MESOS_") {
			continue
		}
		env = append(env, variable)
	}
	sandbox := a.config.Executor.Sandbox
	env = append(env,
		"MESOS_FRAMEWORK_ID="+framework.GetId().GetValue(),
		"MESOS_EXECUTOR_ID="+info.GetExecutorId().GetValue(),
		"MESOS_DIRECTORY="+sandbox,
		"MESOS_SANDBOX="+sandbox,
		"MESOS_AGENT_ENDPOINT="+a.address,
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD="+mesos.FormatDuration(grace),
	)
	if framework.GetCheckpoint() { // any value, even "0", counts as true for some
		env = append(env,
			"MESOS_CHECKPOINT=1",
			"MESOS_RECOVERY_TIMEOUT="+mesos.FormatDuration(cmp.Or(max(a.config.Executor.RecoveryTimeout, 0), executor.DefaultRecoveryTimeout)),
			"MESOS_SUBSCRIPTION_BACKOFF_MAX=2secs",
		)
	}
	for _, variable := range info.GetCommand().GetEnvironment().GetVariables() {
		env = append(env, variable.GetName()+"="+variable.GetValue())
	}
	return env
}

// archives are the endings of names by which Mesos knows an archive that it unpacks unasked.
var archives = []string{".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip"}

// urisOf returns the files of a command as Tender's fetch knows them.
func urisOf(command *mesosv1.CommandInfo) (uris []api.URI) {
	for _, uri := range command.GetUris() {
		file, _, _ := strings.Cut(path.Base(uri.GetValue()), "?")
		named := func(ending string) bool { return strings.HasSuffix(file, ending) }
		uris = append(uris, api.URI{
			Source: uri.GetValue(), Name: uri.GetOutputFile(), Executable: uri.GetExecutable(),
			Extract: uri.GetExtract() && !uri.GetExecutable() && slices.ContainsFunc(archives, named),
		})
	}
	return uris
}

// Fetch brings the files of a command, which is Mesos's CommandInfo as JSON, into a sandbox. A task without an executor
// of its own does so itself.
func Fetch(ctx context.Context, command, sandbox string) error {
	info := new(mesosv1.CommandInfo)
	if err := codec.JSON.Unmarshal([]byte(command), info); err != nil {
		return api.E("mesos.fetch", api.Invalid, "", err)
	}
	return fetchURIs(ctx, sandbox, urisOf(info))
}

func fetchURIs(ctx context.Context, folder string, uris []api.URI) error {
	sandbox, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	fetcher := fetch.Fetcher{Unchecked: true}
	if err := fetcher.Fetch(ctx, sandbox, uris); err != nil {
		return fmt.Errorf("failed to fetch all URIs: %w", err)
	}
	return nil
}

// begin fetches the old executor's files and starts it as a process in a group of its own: executors kill their own
// group when they are told to end. It stays in the agent's session, so that nothing of it is missed at the end.
func begin(ctx context.Context, command Command) (Program, error) {
	if err := fetchURIs(ctx, command.Sandbox, command.URIs); err != nil {
		return nil, err
	}
	name, err := lookUp(command)
	if err != nil {
		return nil, err
	}
	child := &exec.Cmd{
		Path: name, Args: command.Argv, Env: command.Env, Dir: command.Sandbox, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	return process{child}, nil
}

// lookUp finds the program as execvp would, with the executor's own PATH and from its sandbox.
func lookUp(command Command) (string, error) {
	name := command.Argv[0]
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join(command.Sandbox, name)
		}
		return name, nil
	}
	folders := cmp.Or(execpath.Of(command.Env), protocol.DefaultPath)
	if found := execpath.Find(name, folders, command.Sandbox); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("%s: no such program in PATH (%s)", name, folders)
}

// process is an old executor as a process.
type process struct{ child *exec.Cmd }

func (p process) PID() int { return p.child.Process.Pid }

func (p process) Wait() int {
	err := p.child.Wait()
	p.Kill() // what it has left behind in its group
	exited := (*exec.ExitError)(nil)
	if !errors.As(err, &exited) {
		return 0
	}
	if status, is := exited.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exited.ExitCode()
}

// Kill kills the group, whose number belongs to no other while a process of it lives.
func (p process) Kill() { _ = syscall.Kill(-p.PID(), syscall.SIGKILL) }
