// Package process runs executors as processes: each in a session of its own, with a folder, two files for its output,
// and no environment but its own. Each waits behind a gate that opens when its agent has recorded its identity. The
// package kills whole sessions and process groups and knows when nothing of them is left. It never touches a process
// unless it can prove that the process belongs to its agent.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/internal/datafolder"
)

// Launcher is the executor.Launcher of real processes. The zero value is ready.
type Launcher struct {
	// Below is the folder in which all sandboxes are. Default: the root of the file system.
	Below *beneath.Folder
	// Trash is the folder in which folders wait to be deleted. It must be on the disk of the sandboxes. Default: the
	// folder that they were in.
	Trash string
	// Fetch brings files into sandboxes.
	Fetch fetch.Fetcher
	// Cells hold executors with all that they start. Default: none; what belongs to an executor is found by process
	// groups, sessions and environments.
	Cells *walls.Cells
	// Users say as which users executors and tasks run. Where each framework has a user of its own, the folder of an
	// executor must be in a folder of its framework.
	Users entry.Users
	// Rlimits are the limits that executors and their tasks begin with.
	Rlimits entry.Rlimits

	spares spares       // emptied sandboxes for the next tasks
	making sync.RWMutex // locked for reading while folders are made, and for writing while a framework is given its user
}

// The gate is a shell that waits for one line on descriptor 3 and then becomes the executor. If the agent dies first,
// the line never comes, and the shell ends. (R10) The shell removes its own variables from the environment, except PWD,
// which every program is given. Files that the executor and its tasks make can be used by their own user only (umask).
// All of that is done before the line comes, while the agent writes down the child's identity.
const (
	gateBegins = "unset OLDPWD SHLVL; export PWD; umask 077\n"
	// Unless the agent is given other limits, executors and tasks leave no core dumps behind, and a limit of a million
	// open files or more is lowered, because some programs go through all numbers that a file descriptor may have.
	gateCore  = "ulimit -S -c 0\n"
	gateFiles = "case $(ulimit -S -n) in unlimited|???????*) ulimit -S -n 65536;; esac\n"
	gateOpens = `IFS= read -r _ <&3 || exit 1; exec "$@" 3<&-`
)

// gate returns what the shell runs.
func (l *Launcher) gate() string {
	lines := gateBegins
	if !l.Rlimits.Has("core") {
		lines += gateCore
	}
	if !l.Rlimits.Has("nofile") {
		lines += gateFiles
	}
	return lines + gateOpens
}

// Fork forks a child that waits at the gate.
func (l *Launcher) Fork(ctx context.Context, start executor.Start) (executor.Process, error) {
	if err := l.Prepare(ctx, start.Place, start.Command.URIs); err != nil {
		return nil, err
	}
	credential, err := l.credential(start.Place)
	if err != nil {
		return nil, err
	}
	argv, err := arguments(start)
	if err != nil {
		return nil, &executor.CommandError{Err: err}
	}
	child := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        append([]string{"sh", "-c", l.gate(), "gate"}, argv...),
		Dir:         folderOf(start),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: credential},
	}
	return l.forkInCell(ctx, child, start)
}

// forkInCell makes a cell for the executor, forks the child in it, and sets its limits while it waits at the gate. So no
// process of the executor ever runs outside of the cell. (R41)
func (l *Launcher) forkInCell(ctx context.Context, child *exec.Cmd, start executor.Start) (executor.Process, error) {
	told, err := l.Cells.Make(ctx, walls.Holding{Executor: start.Run, Builtin: start.Builtin, Resources: start.Resources})
	if err != nil {
		return nil, err
	}
	start.Cell = told
	p, err := l.fork(child, start)
	if err != nil {
		_, _, left := l.Cells.Clear(ctx, start.Run)
		return nil, errors.Join(err, left)
	}
	if err := errors.Join(l.Cells.Join(start.Run, p.ID().PID), l.Rlimits.Give(p.ID().PID)); err != nil {
		p.Abandon()
		p.Wait(ctx)
		_, _, left := l.Cells.Clear(ctx, start.Run)
		return nil, errors.Join(err, left)
	}
	return p, nil
}

func (l *Launcher) fork(child *exec.Cmd, start executor.Start) (*forked, error) {
	var files closers
	defer files.close()
	child.Stdout = files.output(l.at(start.Sandbox), "stdout")
	child.Stderr = files.output(l.at(start.Sandbox), "stderr")
	gateEnd, opener := files.pipe()
	tokenEnd, token := files.pipe()
	if files.err != nil {
		return nil, files.err
	}
	child.ExtraFiles = []*os.File{gateEnd, tokenEnd}
	if _, err := token.WriteString(start.Token); err != nil { // it fits into the pipe, so nothing blocks
		return nil, err
	}
	seal()
	info, err := l.at(start.Sandbox).Lstat(".")
	if err != nil {
		return nil, err
	}
	owner := entry.OwnerOf(info)
	child.Env = start.Environment(owner)
	ground := walls.Ground{Executor: start.Run, Builtin: start.Builtin, Sandbox: start.Sandbox, Socket: start.Socket, Owner: owner}
	begin := func() error { // runs on a thread that ends afterwards
		closing, err := l.Cells.Enter(ground, child.SysProcAttr)
		if err != nil {
			return err
		}
		defer closing()
		if err := l.Cells.Restrict(ground); err != nil {
			return err
		}
		return child.Start()
	}
	if err := entry.Start(begin); err != nil {
		return nil, fmt.Errorf("the executor can't be started: %w", err)
	}
	p := &forked{child: child, opener: opener, ended: make(chan struct{})}
	files.keep(opener)
	stat, err := proc.Read(child.Process.Pid)
	if err != nil {
		p.Abandon()
		return nil, errors.Join(fmt.Errorf("the executor's child is not in the process table: %w", err), child.Wait())
	}
	p.start = stat.Start
	go p.wait()
	return p, nil
}

// folderOf returns the folder in which the executor begins.
func folderOf(start executor.Start) string {
	if filepath.IsAbs(start.Command.Dir) {
		return start.Command.Dir
	}
	return filepath.Join(start.Sandbox, start.Command.Dir)
}

// arguments returns the executor's command line, which begins with the path of its program. A name with a slash is
// looked up in the folder in which it begins, unless it is absolute; another name is looked for in PATH.
func arguments(start executor.Start) ([]string, error) {
	command := start.Command
	if command.Dir != "" {
		if info, err := os.Stat(folderOf(start)); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s, in which it is to begin, is no folder on this agent", folderOf(start))
		}
	}
	if command.Shell != "" {
		return []string{"/bin/sh", "-c", command.Shell}, nil
	}
	if len(command.Argv) == 0 {
		return nil, errors.New("the executor's command is empty; set argv or shell")
	}
	program := command.Argv[0]
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(folderOf(start), program)
		}
		if err := runnable(program); err != nil {
			return nil, err
		}
		return append([]string{program}, command.Argv[1:]...), nil
	}
	path := start.Path
	if own, ok := command.Env["PATH"]; ok {
		path = own
	}
	for _, folder := range filepath.SplitList(path) {
		if candidate := filepath.Join(folder, program); filepath.IsAbs(candidate) && runnable(candidate) == nil {
			return append([]string{candidate}, command.Argv[1:]...), nil
		}
	}
	return nil, fmt.Errorf("program %q is not in PATH %q; name it with its folder", program, path)
}

func runnable(program string) error {
	info, err := os.Stat(program)
	switch {
	case err != nil:
		return fmt.Errorf("the executor's program: %w", err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("the executor's program %s is not executable", program)
	}
	return nil
}

// closers are files that are to be closed, with the errors of opening them.
type closers struct {
	files []*os.File
	err   error
}

func (c *closers) add(file *os.File, err error) *os.File {
	if err != nil {
		c.err = errors.Join(c.err, err)
		return nil
	}
	c.files = append(c.files, file)
	return file
}

// output opens a file in the sandbox for the executor's output. An earlier run of the executor may have put something
// else in its place: anything but a regular file is an error.
func (c *closers) output(sandbox beneath.Place, name string) *os.File {
	file := c.add(sandbox.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600))
	if file == nil {
		return nil
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		c.err = errors.Join(c.err, fmt.Errorf("%s is not a regular file; it is for the executor's output", file.Name()), err)
	}
	return file
}

func (c *closers) pipe() (reads, writes *os.File) {
	reads, writes, err := os.Pipe()
	if err != nil {
		c.err = errors.Join(c.err, err)
		return nil, nil
	}
	c.files = append(c.files, reads, writes)
	return reads, writes
}

// keep takes a file out, so that it stays open.
func (c *closers) keep(file *os.File) {
	for i := range c.files {
		if c.files[i] == file {
			c.files[i] = nil
		}
	}
}

func (c *closers) close() {
	for _, file := range c.files {
		if file != nil {
			file.Close() //nolint:errcheck // nothing was written that has not been read
		}
	}
}

// forked is a child of this agent.
type forked struct {
	child *exec.Cmd
	start uint64

	mutex  sync.Mutex
	opener *os.File // nil once the gate is open or abandoned

	ended   chan struct{}
	message string // how the process has ended; read only after ended is closed
}

func (p *forked) ID() core.Process { return core.Process{PID: p.child.Process.Pid, Start: p.start} }

func (p *forked) Release() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.opener == nil {
		return errors.New("the gate was abandoned")
	}
	_, err := p.opener.WriteString("go\n")
	err = errors.Join(err, p.opener.Close())
	p.opener = nil
	return err
}

func (p *forked) Abandon() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.opener != nil {
		p.opener.Close() //nolint:errcheck // the child sees the end of the pipe
		p.opener = nil
	}
}

func (p *forked) wait() {
	p.message = ending(p.child.Wait())
	p.Abandon()
	close(p.ended)
}

func ending(err error) string {
	if err == nil {
		return "exited with 0"
	}
	return err.Error()
}

func (p *forked) Wait(ctx context.Context) (string, bool) {
	select {
	case <-p.ended:
		return p.message, true
	case <-ctx.Done():
		return "", false
	}
}

// MoveAway moves a folder into a new folder in the trash, whose name is never used twice. A sandbox that is kept for
// the next task need not be deleted, and "" is returned for it.
func (l *Launcher) MoveAway(path string, free bool) (string, error) {
	if l.at(path).IsMissing() {
		return "", nil
	}
	around := filepath.Dir(path)
	folder, err := l.at(around).OpenFolder()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer folder.Close()
	trash := cmp.Or(l.Trash, around)
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return "", err
	}
	if l.spare(folder, path, trash, free) {
		return "", nil
	}
	return l.discard(folder, path, trash, free)
}

// discard moves the folder at path into a new folder in the trash, together with the spares whose home was in it. If it is
// free these serve any task instead, as far as there is room. folder is the open folder that holds it.
func (l *Launcher) discard(folder *os.File, path, trash string, free bool) (string, error) {
	away, err := os.MkdirTemp(trash, "removed-")
	if datafolder.IsDiskFull(err) {
		return l.discardInPlace(folder, path, trash)
	}
	if err != nil {
		return "", err
	}
	to, err := os.Open(away)
	if err != nil {
		return "", err
	}
	defer to.Close()
	name := filepath.Base(path)
	err = unix.Renameat(int(folder.Fd()), name, int(to.Fd()), name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", os.Remove(away)
	case err != nil:
		return "", errors.Join(&os.PathError{Op: "rename", Path: path, Err: err}, os.Remove(away))
	}
	var failed error
	for _, spare := range l.spares.takeBelow(path) {
		if free && l.spares.hasRoom(anyHome) {
			l.spares.put(anyHome, spare)
			continue
		}
		err := unix.Renameat(unix.AT_FDCWD, spare, int(to.Fd()), filepath.Base(spare))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, &os.PathError{Op: "rename", Path: spare, Err: err})
		}
	}
	return away, failed
}

// discardInPlace does the same on a disk that has no room, or no inode, for a new folder: the folder itself has its new
// name in the trash. Spares whose home was in it are deleted where they are.
func (l *Launcher) discardInPlace(folder *os.File, path, trash string) (string, error) {
	var away string
	for number := 0; ; number++ {
		away = filepath.Join(trash, "removed-full-"+strconv.Itoa(number))
		if _, err := os.Lstat(away); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	err := unix.Renameat(int(folder.Fd()), filepath.Base(path), unix.AT_FDCWD, away)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", &os.PathError{Op: "rename", Path: path, Err: err}
	}
	for _, spare := range l.spares.takeBelow(path) {
		err = errors.Join(err, deleteTree(spare))
	}
	return away, err
}

// Delete deletes a folder and all in it, except what is mounted there.
func (l *Launcher) Delete(away string) error { return deleteTree(away) }
