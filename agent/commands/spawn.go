package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenderhq/tender/agent/images/setup"
	"github.com/tenderhq/tender/agent/walls/birth"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/execpath"
	"github.com/tenderhq/tender/internal/protocol"
)

// files are the file descriptors that a program starts with: stdin, stdout and stderr.
type files [3]uintptr

// open finds the task's program, and opens its files, which belong to the owner of the sandbox. The files must be
// closed by close. It uses system calls instead of package os, because starts are what this process does most.
func open(task *executor.Task, null *os.File) (program program, opened files, err error) {
	if program, err = programOf(task); err != nil {
		return program, opened, err
	}
	stdout, err := output(task, "stdout", program.user)
	if err != nil {
		return program, opened, err
	}
	stderr, err := output(task, "stderr", program.user)
	if err != nil {
		return program, opened, errors.Join(err, syscall.Close(stdout))
	}
	return program, files{null.Fd(), uintptr(stdout), uintptr(stderr)}, nil
}

// close closes the task's stdout and stderr, but not its stdin, which all tasks share.
func (f files) close() {
	for _, fd := range f[1:] {
		syscall.Close(int(fd)) //nolint:errcheck // nothing was written
	}
}

// program is a program, with all that it is started with except its files.
type program struct {
	path      string
	argv, env []string
	sandbox   string
	dir       string // where the task asked to begin; "": nowhere in particular
	shared    string // the folder of the task's group; "": it is in none
	volumes   []api.VolumeID
	gpus      []uint32     // by index
	user      entry.User   // the owner of the sandbox, or the user that the image names
	image     *setup.Setup // what the task's image says; nil: it has no image
}

// groups returns the groups of its user beside the first.
func (p program) groups() []int {
	if p.image != nil {
		return p.user.Groups
	}
	return entry.GroupsOf(p.user.UID)
}

// programOf finds the program of the task's command.
func programOf(task *executor.Task) (program, error) {
	if err := checkSecrets(task); err != nil {
		return program{}, err
	}
	if task.Image != "" {
		return programInImage(task)
	}
	if task.Command == nil {
		return program{}, errNoCommand
	}
	argv := task.Command.Argv
	if task.Command.Shell != "" {
		argv = []string{"/bin/sh", "-c", task.Command.Shell}
	}
	if len(argv) == 0 || argv[0] == "" {
		return program{}, errNoCommand
	}
	info, err := os.Stat(task.Sandbox)
	if err != nil {
		return program{}, err
	}
	user := entry.OwnerOf(info)
	p := program{
		argv: argv, sandbox: task.Sandbox, dir: task.Command.Dir, shared: task.Shared, volumes: volumesOf(task),
		gpus: protocol.GPUIndices(task.GPUs), user: user,
	}
	session := entry.Session(user, task.Sandbox)
	if p.dir != "" {
		if info, err := os.Stat(p.begin()); err != nil || !info.IsDir() {
			return p, fmt.Errorf("%s, in which it is to begin, is no folder on this agent", p.begin())
		}
		session["PWD"] = p.begin()
	}
	var path string
	p.env, path = environment(task, session)
	if p.path = execpath.Find(argv[0], path, p.begin()); p.path == "" {
		return p, fmt.Errorf("%s: no such program in PATH (%s); name its full path, or set PATH in the task's environment", argv[0], path)
	}
	return p, nil
}

// volumesOf returns the volumes that a task has.
func volumesOf(task *executor.Task) (volumes []api.VolumeID) {
	for _, item := range task.Resources.Items() {
		if item.Volume != "" {
			volumes = append(volumes, item.Volume)
		}
	}
	return volumes
}

// fork starts the program as its user, in the groups. If it returns no error the program was executed.
func (p program) fork(opened files, groups birth.Groups) (int, error) {
	start := birth.Start{
		Path: p.path, Argv: p.argv, Env: p.env, Folder: p.begin(), Files: opened, User: entry.Credential(p.user), Groups: groups,
	}
	pid, err := start.Process()
	var astray *birth.AstrayError
	switch {
	case errors.As(err, &astray):
		return 0, ownError{err}
	case err != nil:
		return 0, p.explain(err)
	}
	return pid, nil
}

// output opens a file in the sandbox for the task's output, which belongs to the task's user. A start that is repeated
// appends to the file. Other processes of the same user may have put something else in its place meanwhile: anything
// but a regular file of the user with no other name is an error.
func output(task *executor.Task, name string, owner entry.User) (int, error) {
	path := filepath.Join(task.Sandbox, name)
	wrong := func(err error) (int, error) { return 0, fmt.Errorf("%s can't be opened for its output: %w", path, err) }
	const always = syscall.O_WRONLY | syscall.O_APPEND | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, err := syscall.Open(path, always|syscall.O_NONBLOCK, 0) // mostly an emptied one is there; a pipe that nobody reads is an error
	if errors.Is(err, fs.ErrNotExist) {
		if fd, err = syscall.Open(path, always|syscall.O_CREAT|syscall.O_EXCL, 0o600); err == nil && !owner.IsSelf() {
			if err := syscall.Fchown(fd, owner.UID, owner.GID); err != nil {
				return wrong(errors.Join(err, syscall.Close(fd)))
			}
		}
	}
	if err != nil {
		return wrong(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return wrong(errors.Join(err, syscall.Close(fd)))
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG || stat.Nlink != 1 || int(stat.Uid) != owner.UID {
		return wrong(errors.Join(errors.New("it is not a file of its own"), syscall.Close(fd)))
	}
	return fd, nil
}

// explain turns the kernel's refusal to start the program into a sentence.
func (p program) explain(err error) error {
	if p.image != nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such program in the image, or what its first line names is missing: %w", p.path, err)
	}
	if p.dir != "" && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: not an executable file, or its user may not enter %s: %w", p.path, p.begin(), err)
	}
	return explain(p.path, p.begin(), err)
}

// explain turns the kernel's refusal to start a program of the machine into a sentence.
func explain(program, folder string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && isFromWindows(program, folder):
		return fmt.Errorf("%s: the first line of the script ends with a carriage return, as editors of Windows write it, so that its interpreter "+
			"is not found; end lines with a line feed alone: %w", program, err)
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(program):
		return fmt.Errorf("%s: no such file in the folder %s, or what its first line names is missing: %w", program, folder, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file on this agent, or what its first line names is missing: %w", program, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: not an executable file: %w", program, err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s: not a program for this machine (a script needs a first line like #!/bin/sh): %w", program, err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%s: arguments and environment are too long: %w", program, err)
	}
	wrong := fmt.Errorf("%s can't be started: %w", program, err)
	for _, one := range machineErrors {
		if errors.Is(err, one) {
			return ownError{wrong}
		}
	}
	return wrong
}

// machineErrors are the kernel's refusals to start a program that are not about the program: another try may not meet
// them. A program that was just brought is still open for writing in a child of the agent that is being forked.
var machineErrors = []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.EBUSY, syscall.ETXTBSY}

// ownError is the reason why a task could not be started that is not the task's fault.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// reasonOf returns the reason for the end of a task that could not be started.
func reasonOf(err error) api.Reason {
	var own ownError
	switch {
	case datafolder.IsDiskFull(err):
		return api.ReasonDiskFull
	case errors.As(err, &own):
		return api.ReasonAgentFailed
	}
	return api.ReasonLaunchFailed
}

// isFromWindows says whether the program is a script whose first line ends with a carriage return. The kernel takes that
// for a part of the interpreter's name.
func isFromWindows(program, folder string) bool {
	if !filepath.IsAbs(program) {
		program = filepath.Join(folder, program)
	}
	fd, err := syscall.Open(program, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	begin := make([]byte, 256)
	n, err := syscall.Read(fd, begin)
	line, _, whole := bytes.Cut(begin[:max(n, 0)], []byte("\n"))
	return err == nil && whole && bytes.HasPrefix(line, []byte("#!")) && bytes.HasSuffix(line, []byte("\r"))
}

// environment returns the environment of a task, and its PATH. Of variables with the same name the last of these counts:
// PATH and the other variables by default, those of the task's command, its secrets, TENDER_TASK_*. So secrets replace
// the variables of an image, which are among those of the command.
func environment(task *executor.Task, byDefault map[string]string) (env []string, path string) {
	all := map[string]string{"PATH": protocol.DefaultPath}
	maps.Copy(all, byDefault)
	maps.Copy(all, task.Command.Env)
	path = all["PATH"]
	for _, secret := range task.Secrets {
		if value, is := task.Secret(secret.Env); is {
			all[secret.Env] = string(value)
		}
	}
	all[protocol.TaskIDEnv] = string(task.ID)
	all[protocol.TaskFrameworkIDEnv] = string(task.Framework)
	all[protocol.TaskSandboxEnv] = task.Sandbox
	all[protocol.TaskAgentIDEnv] = string(task.Agent)
	all[protocol.TaskHostnameEnv] = task.Hostname
	if task.Shared != "" {
		all[protocol.TaskSharedEnv] = task.Shared
	}
	addGPUs(all, task.GPUs)
	for name, port := range task.Ports {
		all[api.PortVariable(name)] = strconv.Itoa(int(port))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env, path
}

// addGPUs adds the variables that tell a task which GPUs it has, if it has any.
func addGPUs(own map[string]string, gpus []api.GPU) {
	if len(gpus) == 0 {
		return
	}
	indices, names := make([]string, len(gpus)), make([]string, len(gpus))
	for i, gpu := range gpus {
		indices[i], names[i] = strconv.FormatUint(uint64(gpu.Index), 10), gpu.ID
	}
	own[protocol.TaskGPUsEnv] = strings.Join(indices, ",")
	own[protocol.CUDAEnv] = strings.Join(names, ",")
	own[protocol.NvidiaEnv] = own[protocol.CUDAEnv]
}

// checkSecrets refuses secrets that no variable can hold.
func checkSecrets(task *executor.Task) error {
	for _, secret := range task.Secrets {
		if value, _ := task.Secret(secret.Env); bytes.IndexByte(value, 0) >= 0 {
			return fmt.Errorf("secret %s holds a zero byte, which no variable can; ask for it as a file", secret.ID)
		}
	}
	return nil
}
