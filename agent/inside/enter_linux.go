package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/internal/execpath"
)

// Entry describes how to enter a task, as its process shows it, and what is to be run there.
type Entry struct {
	Target    core.Process
	Argv, Env []string
	Dir       string
	TTY       bool
	UID, GID  int
	Groups    []uint32
	Rights
	Join        []string // the files through which a process joins its control groups
	Namespaces  []string // those that are not the agent's own
	OtherRoot   bool     // its / is not the root of its mounts, or not the agent's
	Limits      []unix.Rlimit
	Score       string // its value for the kernel's choice of what to kill when memory is short
	namespaceFD []int
	rootFD      int
}

// Rights are the limits of the task in addition to those of its user.
type Rights struct {
	Bounding   uint64 // the capabilities that it could ever have
	Permitted  uint64 // the capabilities that it has
	NoNewPrivs bool   // no program can give it more
	Deny       bool   // it is denied the system calls that package calls lists
	// Reach are the files that it may use; nil: all that its user may use.
	Reach *paths.Reach
}

// The helper's descriptors: it reads the Entry from one, and reports on the other how the command ended.
const (
	entryFD  = 3
	reportFD = 4
)

// Enter is the main function of the helper. It reads an Entry, enters the task, runs the command there as its child,
// and reports how that ended. It returns when the process is to end. The signals in Passed are passed on to the
// command.
func Enter(signals <-chan os.Signal) error {
	runtime.LockOSThread() // what follows changes one thread; the child is forked from it and must not outlive it
	in, out := os.NewFile(entryFD, "entry"), os.NewFile(reportFD, "report")
	unix.CloseOnExec(entryFD)
	unix.CloseOnExec(reportFD)
	var entry Entry
	err := json.NewDecoder(io.LimitReader(in, 16<<20)).Decode(&entry)
	if err != nil {
		return fmt.Errorf("agents start this; there is no way into a task here: %w", err)
	}
	code, err := entry.run(in, signals)
	end := report{Code: code}
	if err != nil {
		end.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(end)
}

// run runs the command until it ends, or until the agent does: then nobody holds the other end of alive.
func (e *Entry) run(alive io.Reader, signals <-chan os.Signal) (code int, err error) {
	if err := e.goIn(); err != nil {
		return 0, err
	}
	program, err := e.find()
	if err != nil {
		return 0, err
	}
	attributes := &syscall.SysProcAttr{Setpgid: true, Foreground: e.TTY}
	if e.UID != os.Geteuid() || e.GID != os.Getegid() || os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: uint32(e.UID), Gid: uint32(e.GID), Groups: e.Groups}
	}
	pid, err := syscall.ForkExec(program, e.Argv, &syscall.ProcAttr{Dir: e.Dir, Env: e.Env, Files: []uintptr{0, 1, 2}, Sys: attributes})
	if err != nil {
		return 0, fmt.Errorf("%s can't be started in the task: %w", e.Argv[0], err)
	}
	// The command has its own copies of these files; they end with it.
	for fd := range 3 {
		_ = unix.Close(fd)
	}
	go func() { // it lives as long as the process
		_, _ = io.Copy(io.Discard, alive)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}()
	go func() { // it lives as long as the process
		for s := range signals {
			_ = syscall.Kill(-pid, s.(syscall.Signal)) //nolint:forcetypeassert // there is no other kind
		}
	}()
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR { //nolint:errorlint // it is never wrapped
			break
		}
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), err
	}
	return status.ExitStatus(), err
}

// goIn makes this thread a part of the task. First it opens everything by names that are valid outside, then it joins
// the namespaces, then it gives up rights.
func (e *Entry) goIn() error {
	if err := e.open(); err != nil {
		return err
	}
	self := []byte(strconv.Itoa(os.Getpid()))
	for _, group := range e.Join {
		if err := os.WriteFile(group, self, 0); err != nil {
			return fmt.Errorf("the task's control group can't be joined: %w", err)
		}
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(e.Score), 0) // who may not lower it keeps a higher one
	for resource, limit := range e.Limits {
		var own unix.Rlimit
		if err := unix.Getrlimit(resource, &own); err == nil && own == limit {
			continue
		}
		if err := unix.Setrlimit(resource, &limit); err != nil {
			return fmt.Errorf("the task's limit %d can't be taken on: %w", resource, err)
		}
	}
	if err := e.enterNamespaces(); err != nil {
		return err
	}
	return e.giveUp()
}

// open opens the target's namespaces and root. They are the right ones if the target still lives afterwards.
func (e *Entry) open() error {
	folder := "/proc/" + strconv.Itoa(e.Target.PID)
	for _, name := range e.Namespaces {
		fd, err := unix.Open(folder+"/ns/"+ofChildren(name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the task's namespace %s can't be opened: %w", name, err)
		}
		e.namespaceFD = append(e.namespaceFD, fd)
	}
	if e.OtherRoot {
		fd, err := unix.Open(folder+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the task's root can't be opened: %w", err)
		}
		e.rootFD = fd
	}
	if !proc.Alive(e.Target.PID, e.Target.Start) {
		return errors.New("the task's process has ended just now")
	}
	return nil
}

func (e *Entry) enterNamespaces() error {
	if len(e.Namespaces) > 0 {
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // otherwise a thread that is not alone can't join mounts
			return err
		}
	}
	for i, fd := range e.namespaceFD {
		if err := unix.Setns(fd, 0); err != nil {
			return fmt.Errorf("the task's namespace %s can't be joined: %w", e.Namespaces[i], err)
		}
	}
	if !e.OtherRoot {
		return nil
	}
	if err := errors.Join(unix.Fchdir(e.rootFD), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("the task's root can't be entered: %w", err)
	}
	return nil
}

// giveUp drops the rights that the task does not have.
func (e *Entry) giveUp() error {
	own, err := boundingSet()
	if err != nil {
		return err
	}
	for capability := range 64 {
		if own&^e.Bounding&(1<<capability) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
			return fmt.Errorf("capability %d, which the task does not have, can't be dropped: %w", capability, err)
		}
	}
	if e.UID == 0 && e.Permitted != e.Bounding {
		return errors.New("the task has given up rights that a new process of its user would have")
	}
	if e.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	if e.Reach != nil {
		if err := errors.Join(paths.Separate(), e.Reach.Confine()); err != nil {
			return err
		}
	}
	if e.Deny {
		return calls.Deny()
	}
	return nil
}

func boundingSet() (set uint64, err error) {
	status, _ := proc.Status("thread-self")
	if status == nil { // the task's mounts have no /proc: all capabilities that may exist are dropped
		return ^uint64(0) >> (64 - 41), nil
	}
	set, err = strconv.ParseUint(status["CapBnd"], 16, 64)
	if err != nil {
		return 0, errors.New("the kernel does not tell of capabilities")
	}
	return set, nil
}

// find looks for the program as the task would: in its PATH, or from its sandbox on.
func (e *Entry) find() (string, error) {
	name, path := e.Argv[0], execpath.Of(e.Env)
	if program := execpath.Find(name, path, e.Dir); program != "" {
		return program, nil
	}
	return "", fmt.Errorf("%s: no such program in the task's PATH (%s)", name, path)
}
