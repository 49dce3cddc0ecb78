package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
)

func fork(t *testing.T, l *Launcher, command api.Command) (executor.Process, string) {
	t.Helper()
	sandbox := filepath.Join(t.TempDir(), "sandbox")
	p, err := l.Fork(t.Context(), executor.Start{
		Run: api.ExecutorRef{Framework: "f1", Executor: "x"}, Command: command, Place: executor.Place{Sandbox: sandbox}, Socket: "/socket", Token: "secret",
		Path: "/usr/bin:/bin",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := killAll(t, l, executor.Owner{Leader: p.ID()}); err != nil {
			t.Error(err)
		}
	})
	return p, sandbox
}

func wait(t *testing.T, p executor.Process) string {
	t.Helper()
	return hang.Await(t, fmt.Sprintf("the end of process %d", p.ID().PID), family, func() string {
		message, _ := p.Wait(t.Context())
		return message
	})
}

// killAll kills all that belongs to an executor.
func killAll(t *testing.T, l *Launcher, owner executor.Owner) error {
	t.Helper()
	what := fmt.Sprintf("the end of all processes of %d in %q", owner.Leader.PID, owner.Sandbox)
	return hang.Await(t, what, family, func() error {
		_, err := l.KillAll(context.Background(), owner)
		return err
	})
}

// family describes the processes that this test has started, with all descendants, and all that are in their sessions.
func family() string {
	all, err := proc.All()
	if err != nil {
		return err.Error()
	}
	ours := map[int]bool{os.Getpid(): true}
	var text strings.Builder
	for range all { // a child may be listed before its parent
		for _, p := range all {
			if !ours[p.PID] && (ours[p.Parent] || ours[p.Session]) {
				ours[p.PID] = true
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // it may have ended
				fmt.Fprintf(&text, "%+v %q\n", p, line)
			}
		}
	}
	return text.String()
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fifo makes a FIFO. line reads what a process writes into it, and blocks until the writer closes it.
func fifo(t *testing.T) (path string, line func() string) {
	path = filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() string {
		t.Helper()
		var err error
		text := hang.Await(t, "what a process writes into "+path, family, func() (text []byte) {
			text, err = os.ReadFile(path) // until the writer closes it
			return text
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
}

// The child waits for its gate, then runs as the same process, in a session of its own.
func TestGate(t *testing.T) {
	p, sandbox := fork(t, &Launcher{}, api.Command{Shell: "echo $$; echo bad >&2; exit 3"})
	id := p.ID()
	stat, err := proc.Read(id.PID)
	if err != nil || stat.Session != id.PID || stat.Group != id.PID || stat.Start != id.Start {
		t.Errorf("%+v, %v", stat, err)
	}
	if output := read(t, sandbox, "stdout"); output != "" {
		t.Errorf("it ran before its gate was open: %q", output)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if message := wait(t, p); message != "exit status 3" {
		t.Errorf("it ended with %q", message)
	}
	if output := read(t, sandbox, "stdout"); output != strconv.Itoa(id.PID)+"\n" {
		t.Errorf("process %d said %q", id.PID, output)
	}
	if output := read(t, sandbox, "stderr"); output != "bad\n" {
		t.Errorf("stderr is %q", output)
	}
}

// An executor of an agent that denies system calls is denied them from its start on, and so is all that it starts.
func TestExecutorsAreDeniedCalls(t *testing.T) {
	if err := calls.Try(); err != nil {
		t.Skip(err)
	}
	cells, err := walls.OpenCells(t.TempDir(), walls.Config{Isolation: walls.Without, Strict: cell.Strict{DenyCalls: true}})
	if err != nil {
		t.Fatal(err)
	}
	p, sandbox := fork(t, &Launcher{Cells: cells}, api.Command{Shell: "grep ^Seccomp: /proc/self/status; unshare -U true 2> /dev/null || echo denied"})
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if said := read(t, sandbox, "stdout"); strings.TrimSpace(said) != "Seccomp:\t2\ndenied" {
		t.Errorf("%q", said)
	}
}

func TestAbandonedChildNeverRuns(t *testing.T) {
	p, sandbox := fork(t, &Launcher{}, api.Command{Shell: "echo ran"})
	p.Abandon()
	wait(t, p)
	if err := p.Release(); err == nil {
		t.Error("an abandoned gate opened")
	}
	if output := read(t, sandbox, "stdout"); output != "" {
		t.Errorf("it said %q", output)
	}
}

// The environment holds what was asked for, the variables of a session and TENDER_EXECUTOR_*. The token comes by its file
// descriptor and is nowhere else, and no other descriptor is open. (R33)
func TestEnvironment(t *testing.T) {
	t.Setenv("OF_THE_AGENT", "secret")
	p, sandbox := fork(t, &Launcher{}, api.Command{
		// The descriptors are listed by a plain command, as a shell may open some itself for a pipe or a redirection of
		// output. It is not the last command, which the shell would become.
		Shell: "tr '\\0' '\\n' < /proc/$$/environ; echo; cat <&4; echo; ls /proc/$$/fd; true",
		Env:   map[string]string{"ASKED": "a b\nc"},
	})
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	environment, rest, _ := strings.Cut(read(t, sandbox, "stdout"), "\n\n")
	var names []string
	for line := range strings.Lines(environment) {
		if name, _, is := strings.Cut(line, "="); is {
			names = append(names, name)
		}
	}
	want := []string{
		"ASKED", "PATH", "HOME", "PWD", "USER", "LOGNAME", "SHELL", "TMPDIR", protocol.ExecutorIDEnv, protocol.ExecutorFrameworkIDEnv, protocol.ExecutorRecoveryTimeoutEnv,
		protocol.ExecutorSandboxEnv, protocol.ExecutorSocketEnv, protocol.ExecutorTokenFDEnv,
	}
	slices.Sort(names)
	slices.Sort(want)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "_" }) // some shells set this variable to the program that they execute
	if !slices.Equal(names, want) {
		t.Errorf("the environment has %v, wanted %v", names, want)
	}
	if rest != "secret\n0\n1\n2\n4\n" {
		t.Errorf("the token and the descriptors are %q", rest)
	}
}

// When an executor was killed, KillAll ends all processes of its session, and those that were started with its folder
// in their environment, even if they have left the session.
func TestKillAllLeavesNothing(t *testing.T) {
	pipe, line := fifo(t)
	l := &Launcher{}
	p, sandbox := fork(t, l, api.Command{Shell: "sleep 1000 & trap '' TERM HUP; (setsid sh -c 'echo $$ > " + pipe + "; exec sleep 1000') & wait"})
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(line())
	if err != nil {
		t.Fatal(err)
	}
	stat, err := proc.Read(pid)
	if err != nil || stat.Session == p.ID().PID {
		t.Fatalf("%+v, %v", stat, err)
	}
	if err := syscall.Kill(p.ID().PID, syscall.SIGKILL); err != nil { // only the executor, as by an accident
		t.Fatal(err)
	}
	wait(t, p)
	if err := killAll(t, l, executor.Owner{Leader: p.ID(), Sandbox: sandbox}); err != nil {
		t.Fatal(err)
	}
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		if !q.Dead && (q.Session == p.ID().PID || q.Group == pid) {
			t.Errorf("left: %+v", q)
		}
	}
}

// A process that was found once by its environment is found until it is dead: a process that is being killed has no
// environment any more, but still has its files open. Here the process gives its environment up by another program.
func TestWhatWasFoundStaysFound(t *testing.T) {
	sandbox := t.TempDir()
	daemon := exec.Command("sh", "-c", "read line; exec env -i sleep 1000")
	daemon.Env = append(os.Environ(), "TENDER_EXECUTOR_SANDBOX="+sandbox)
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	line, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	}()
	pid, owner, known := daemon.Process.Pid, executor.Owner{Sandbox: sandbox}, map[core.Process]bool{}
	find := func(known map[core.Process]bool) []int {
		groups, _, err := living(owner, known)
		if err != nil {
			t.Error(err)
		}
		return groups
	}
	if got := find(known); !slices.Equal(got, []int{pid}) {
		t.Fatalf("found %v, want %d", got, pid)
	}
	if _, err := line.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	hang.Await(t, "the daemon without environment", nil, func() bool {
		for len(find(map[core.Process]bool{})) > 0 {
			runtime.Gosched()
		}
		return true
	})
	if got := find(known); !slices.Equal(got, []int{pid}) {
		t.Errorf("then found %v, want %d still", got, pid)
	}
}

// An executor that names a foreign process group as that of a task is not believed, whether it is alive or dead.
func TestForeignGroupsAreLeftAlone(t *testing.T) {
	innocent := exec.Command("sleep", "1000")
	innocent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = innocent.Process.Kill()
		_ = innocent.Wait()
	}()
	stat, err := proc.Read(innocent.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	l := &Launcher{}
	p, sandbox := fork(t, l, api.Command{Shell: "exec sleep 1000"})
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	owner := executor.Owner{Leader: p.ID(), Sandbox: sandbox}
	if err := l.Kill(owner, "t1", core.Process{PID: stat.PID, Start: stat.Start}); !api.Is(err, api.Denied) {
		t.Errorf("a foreign group: %v, want an error of kind Denied", err)
	}
	if err := killAll(t, l, owner); err != nil {
		t.Error(err)
	}
	if !proc.Alive(stat.PID, stat.Start) {
		t.Error("an innocent process was killed")
	}
}

// Another process with the same number is not killed.
func TestReusedNumbersAreLeftAlone(t *testing.T) {
	innocent := exec.Command("sleep", "1000")
	innocent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = innocent.Process.Kill()
		_ = innocent.Wait()
	}()
	pid := innocent.Process.Pid
	stat, err := proc.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	l := &Launcher{}
	other := core.Process{PID: pid, Start: stat.Start + 1}
	if err := errors.Join(killAll(t, l, executor.Owner{Leader: other}), l.Kill(executor.Owner{Leader: other}, "t1", other)); err != nil {
		t.Fatal(err)
	}
	if !proc.Alive(pid, stat.Start) {
		t.Error("an innocent process was killed")
	}
	if l.Find(other) != nil {
		t.Error("another process was found")
	}
	if l.Find(core.Process{PID: pid, Start: stat.Start}) == nil {
		t.Error("the process was not found")
	}
}

// After a restart the agent watches a process that is not its child.
func TestFoundProcessIsWatched(t *testing.T) {
	l := &Launcher{}
	p, _ := fork(t, l, api.Command{Shell: "exec sleep 1000"})
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	found := l.Find(p.ID())
	if found == nil || found.ID() != p.ID() {
		t.Fatalf("found %v", found)
	}
	brief, cancel := context.WithCancel(t.Context())
	ended := make(chan bool, 1)
	go func() {
		_, done := found.Wait(brief)
		ended <- done
	}()
	cancel()
	if hang.Receive(t, "that nobody watches any more", family, ended) {
		t.Error("a living process counts as ended")
	}
	go func() {
		_, done := found.Wait(t.Context())
		ended <- done
	}()
	if err := l.Kill(executor.Owner{Leader: p.ID()}, "t1", p.ID()); err != nil {
		t.Fatal(err)
	}
	if !hang.Receive(t, "the end of a found process", family, ended) {
		t.Error("its end was not seen")
	}
}

func TestProgramsAreFound(t *testing.T) {
	sandbox := t.TempDir()
	program := filepath.Join(sandbox, "mine")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"sh", "-c"}, "/bin/sh -c"},
		{[]string{"./mine", "x"}, program + " x"},
		{[]string{program}, program},
		{[]string{"mine"}, "is not in PATH"},
		{[]string{"./other"}, "no such file"},
		{[]string{sandbox}, "is not executable"},
		{nil, "command is empty"},
	} {
		argv, err := arguments(executor.Start{Place: executor.Place{Sandbox: sandbox}, Path: "/nowhere:/bin", Command: api.Command{Argv: c.argv}})
		got := strings.Join(argv, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v is %q, wanted %q", c.argv, got, c.want)
		}
	}
	if err := os.Mkdir(filepath.Join(sandbox, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"below": filepath.Join(sandbox, "below"), "/tmp": "/tmp", "": sandbox} {
		start := executor.Start{Place: executor.Place{Sandbox: sandbox}, Command: api.Command{Shell: "x", Dir: dir}}
		if _, err := arguments(start); err != nil || folderOf(start) != want {
			t.Errorf("folder %q is %q, %v", dir, folderOf(start), err)
		}
	}
	if _, err := arguments(executor.Start{Place: executor.Place{Sandbox: sandbox}, Command: api.Command{Shell: "x", Dir: "mine"}}); err == nil {
		t.Error("it would begin in a file")
	}
}

// The path of a folder is free at once. Then all of the folder is deleted, also what its task has made unreadable.
func TestMoveAwayAndDelete(t *testing.T) {
	folder := t.TempDir()
	l := &Launcher{Trash: filepath.Join(folder, "trash")}
	path := filepath.Join(folder, "sandbox")
	locked := filepath.Join(path, "a", "b")
	for range 2 { // the same path, twice
		if err := os.MkdirAll(locked, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			if err := os.WriteFile(filepath.Join(locked, strconv.Itoa(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Symlink(folder, filepath.Join(locked, "link")), os.Chmod(locked, 0)); err != nil {
			t.Fatal(err)
		}
		away, err := l.MoveAway(path, false)
		if err != nil || away == "" {
			t.Fatal(away, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
		if err := os.Mkdir(path, 0o700); err != nil { // a new folder at the same path
			t.Fatal(err)
		}
		if err := l.Delete(away); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(away); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the new folder: %v", err)
		}
	}
	if away, err := l.MoveAway(filepath.Join(folder, "nothing"), false); away != "" || err != nil {
		t.Error(away, err)
	}
	if err := l.Delete(filepath.Join(folder, "nothing", "there")); err != nil {
		t.Error(err)
	}
}
