package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// TestMain runs as the helper when a session of these tests starts this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "enter" {
		signals := make(chan os.Signal, 16)
		signal.Notify(signals, Passed...)
		if err := Enter(signals); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// task is a process that plays the part of a task.
type task struct {
	command *exec.Cmd
	process core.Process
	sandbox string
	reach   *paths.Reach
}

// begin starts a task that runs these shell lines. It returns when they have written a line of output.
func begin(t *testing.T, change func(*exec.Cmd), lines string) *task {
	t.Helper()
	sandbox := t.TempDir()
	one := &task{command: exec.Command("/bin/sh", "-c", lines), sandbox: sandbox}
	one.command.Dir = sandbox
	one.command.Env = []string{"PATH=/usr/bin:/bin", "OF_THE_TASK=a b", "TENDER_TASK_SANDBOX=" + sandbox}
	one.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if change != nil {
		change(one.command)
	}
	up, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	one.command.Stdout = says
	err = one.command.Start()
	says.Close()
	if err != nil {
		t.Skipf("this machine starts no such task: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-one.command.Process.Pid, syscall.SIGKILL)
		_ = one.command.Wait()
	})
	awaitByte(t, "the first line of a task", up)
	stat, err := proc.Read(one.command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	one.process = core.Process{PID: stat.PID, Start: stat.Start}
	return one
}

func awaitByte(t *testing.T, what string, from io.Reader) {
	t.Helper()
	if err := hang.Await(t, what, nil, func() error {
		_, err := io.ReadFull(from, make([]byte, 1))
		return err
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// client is the client of a session.
type client struct {
	t    *testing.T
	to   *frames.Writer
	from *io.PipeReader
	hang func() // ends the connection
	over chan struct{}
	done chan error
	out  bytes.Buffer // the test reads it only between two calls of await
	err  bytes.Buffer
	ends chan frames.End
}

func (one *task) run(t *testing.T, command frames.Command) *client {
	t.Helper()
	stdinReads, stdinWrites := io.Pipe()
	outReads, outWrites := io.Pipe()
	c := &client{
		t: t, to: frames.NewWriter(stdinWrites), from: outReads, over: make(chan struct{}), done: make(chan error, 1), ends: make(chan frames.End, 1),
		hang: func() { stdinWrites.Close() },
	}
	session := &Session{Enter: []string{os.Args[0], "enter"}, Target: one.process, Sandbox: one.sandbox, Reach: one.reach, Over: c.over}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		c.done <- session.Serve(ctx, stdinReads, outWrites)
		outWrites.Close()
		stdinReads.Close()
	}()
	if err := c.to.WriteJSON(frames.Order, command); err != nil {
		t.Fatal(err)
	}
	return c
}

// await reads until stdout contains the text or the session has ended.
func (c *client) await(text string) {
	c.t.Helper()
	what := fmt.Sprintf("%q in the output", text)
	if err := hang.Await(c.t, what, func() string { return c.out.String() }, func() error {
		for !strings.Contains(c.out.String(), text) {
			if end, over := c.next(); over {
				return fmt.Errorf("it has ended: %+v", end)
			}
		}
		return nil
	}); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *client) next() (frames.End, bool) {
	kind, content, err := frames.Read(c.from)
	if err != nil {
		return frames.End{Why: err.Error()}, true
	}
	switch kind {
	case frames.Stdout:
		c.out.Write(content)
	case frames.Stderr:
		c.err.Write(content)
	case frames.Ended:
		var end frames.End
		if err := json.Unmarshal(content, &end); err != nil {
			c.t.Error(err)
		}
		return end, true
	}
	return frames.End{}, false
}

// end reads to the end of the session.
func (c *client) end() frames.End {
	c.t.Helper()
	return hang.Await(c.t, "the end of a session", nil, func() frames.End {
		for {
			if end, over := c.next(); over {
				return end
			}
		}
	})
}

func shell(line string) frames.Command { return frames.Command{Argv: []string{"sh", "-c", line}} }

func TestACommandIsTheTasksOwn(t *testing.T) {
	task := begin(t, nil, "echo; exec sleep 1000")
	c := task.run(t, shell("pwd; echo $OF_THE_TASK; env | wc -l; cat; echo bad >&2; exit 7"))
	if err := errors.Join(c.to.Write(frames.Stdin, []byte("typed\n")), c.to.Write(frames.StdinEnd, nil)); err != nil {
		t.Fatal(err)
	}
	end := c.end()
	sandbox, err := filepath.EvalSymlinks(task.sandbox)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Split(c.out.String(), "\n")
	if len(fields) < 4 || fields[0] != sandbox || fields[1] != "a b" || fields[3] != "typed" {
		t.Errorf("stdout %q", c.out.String())
	}
	if end != (frames.End{Code: 7}) || c.err.String() != "bad\n" {
		t.Errorf("%+v, stderr %q", end, c.err.String())
	}
	for line, want := range map[string]int{"kill -9 $$": 137, "true": 0} {
		if end := task.run(t, shell(line)).end(); end != (frames.End{Code: want}) {
			t.Errorf("%s: %+v", line, end)
		}
	}
	for _, argv := range [][]string{{"no-such-program"}, {}, {"./nothing"}} {
		if end := task.run(t, frames.Command{Argv: argv}).end(); end.Why == "" || end.Code == 0 {
			t.Errorf("%v: %+v", argv, end)
		}
	}
}

// A terminal has the size of the client's terminal, belongs to the command alone, and takes what a person types.
func TestATerminal(t *testing.T) {
	task := begin(t, nil, "echo; exec sleep 1000")
	command := shell("stty size; echo $TERM; read line; stty size; trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.01; done")
	command.TTY, command.Rows, command.Cols, command.Term = true, 24, 80, "xterm"
	c := task.run(t, command)
	c.await("24 80\r\nxterm\r\n")
	if err := errors.Join(c.to.WriteSize(50, 132), c.to.Write(frames.Stdin, []byte("go\r"))); err != nil {
		t.Fatal(err)
	}
	c.await("50 132\r\n")
	c.await("ready\r\n")
	if err := c.to.Write(frames.Stdin, []byte{3}); err != nil {
		t.Fatal(err)
	}
	if end := c.end(); end != (frames.End{Code: 3}) || !strings.Contains(c.out.String(), "caught") {
		t.Errorf("%+v, %q", end, c.out.String())
	}
}

func TestASignalIsPassedOn(t *testing.T) {
	task := begin(t, nil, "echo; exec sleep 1000")
	c := task.run(t, shell("trap 'echo caught; exit 4' TERM; echo ready; while :; do sleep 0.01; done"))
	c.await("ready")
	if err := c.to.Write(frames.Signal, []byte{byte(syscall.SIGTERM)}); err != nil {
		t.Fatal(err)
	}
	if end := c.end(); end != (frames.End{Code: 4}) || !strings.Contains(c.out.String(), "caught") {
		t.Errorf("%+v, %q", end, c.out.String())
	}
}

// If the client, the task, or the context ends first, the command ends too, with everything that it has started. What
// the command leaves running when it ends is also ended.
func TestNothingOutlivesASession(t *testing.T) {
	task := begin(t, nil, "echo; exec sleep 1000")
	const line = "trap '' TERM HUP; sleep 1000 & (trap '' HUP; sleep 1000) & echo $$; "
	for what, end := range map[string]func(*client){
		"the client goes":  func(c *client) { c.hang() },
		"the task ends":    func(c *client) { close(c.over) },
		"the command ends": func(c *client) { _ = c.to.Write(frames.Stdin, []byte("\n")) },
	} {
		for _, tty := range []bool{false, true} {
			command := shell(line + "read x; exit 0")
			command.TTY = tty
			c := task.run(t, command)
			c.await("\n")
			var pid int
			if _, err := fmt.Sscan(c.out.String(), &pid); err != nil {
				t.Fatal(err)
			}
			stat, err := proc.Read(pid)
			if err != nil {
				t.Fatal(err)
			}
			end(c)
			how := c.end()
			if how.Why == "" && what != "the command ends" || strings.Contains(what, "task") && !strings.Contains(how.Why, "task has ended") {
				t.Errorf("%s: %+v", what, how)
			}
			all, err := proc.All()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range all {
				if !p.Dead && p.Session == stat.Session {
					t.Errorf("%s (terminal: %v): process %+v is left", what, tty, p)
				}
			}
		}
	}
	if !proc.Alive(task.process.PID, task.process.Start) {
		t.Error("the task itself was ended")
	}
}

func TestATaskThatIsGoneIsNotEntered(t *testing.T) {
	task := begin(t, nil, "echo; exec sleep 1000")
	task.process.Start++ // another process with the same PID
	if end := task.run(t, shell("true")).end(); !strings.Contains(end.Why, "has no process now") {
		t.Errorf("%+v", end)
	}
}

// A command is inside the walls of its task, whatever they are: another user, other namespaces, control groups, limits,
// and rights that were given up.
func TestACommandIsInsideTheWalls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can build walls")
	}
	group := newGroup(t)
	walls := func(c *exec.Cmd) {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
		c.SysProcAttr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	}
	task := begin(t, walls, "mount --make-rprivate / && mount -t tmpfs none /mnt && mount -t proc none /proc && echo here > /mnt/mark && chmod 755 /mnt && "+
		"echo $$ > "+group+"/cgroup.procs && ulimit -n 77 && cd / && exec setpriv --no-new-privs --bounding-set -all --reuid 65534 --regid 65534 --clear-groups "+
		"sh -c 'echo; exec sleep 1000'")
	if err := errors.Join(os.Chmod(task.sandbox, 0o755), os.Chmod(filepath.Dir(task.sandbox), 0o755)); err != nil {
		t.Fatal(err)
	}
	const line = "id -u; id -g; cat /mnt/mark; ulimit -n; grep -c . /proc/self/cgroup; for n in mnt pid uts ipc net; do readlink /proc/self/ns/$n; done; " +
		"grep -E '^(CapBnd|CapPrm|CapEff|NoNewPrivs|Groups):' /proc/self/status; ls /proc | grep -c '^[0-9]'; cat /proc/self/cgroup"
	c := task.run(t, shell("cd /; "+line))
	end := c.end()
	if end.Code != 0 || end.Why != "" {
		t.Fatalf("%+v, %q %q", end, c.out.String(), c.err.String())
	}
	got := strings.Split(c.out.String(), "\n")
	if !slices.Equal(got[:4], []string{"65534", "65534", "here", "77"}) {
		t.Errorf("user, group, file and limit are %q", got[:4])
	}
	for i, name := range []string{"mnt", "pid", "uts", "ipc", "net"} {
		want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", task.process.PID, name))
		if err != nil || got[5+i] != want {
			t.Errorf("namespace %s is %s, the task's is %s, %v", name, got[5+i], want, err)
		}
	}
	theirs, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", task.process.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range got[10:15] {
		if name, _, _ := strings.Cut(line, ":"); name != "Groups" && !strings.Contains(string(theirs), line+"\n") {
			t.Errorf("a command has %q, which its task has not:\n%s", line, theirs)
		}
	}
	if !strings.Contains(c.out.String(), "/"+filepath.Base(group)+"\n") {
		t.Errorf("the control groups are %q", got[16:])
	}
}

// newGroup makes a control group of version 2 or 1, and removes it when it is empty. Its name is not one that an agent
// would use: an agent that starts on this machine meanwhile would remove it while it is empty, as a leftover.
func newGroup(t *testing.T) string {
	t.Helper()
	for _, hierarchy := range []string{"", "unified", "pids", "freezer", "memory"} {
		top := filepath.Join("/sys/fs/cgroup", hierarchy)
		if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err != nil {
			continue
		}
		group := filepath.Join(top, fmt.Sprintf("test-inside-%d", os.Getpid()))
		if os.Mkdir(group, 0o755) == nil {
			t.Cleanup(func() {
				if err := hang.Await(t, "an empty control group", nil, func() error {
					for {
						if err := os.Remove(group); !errors.Is(err, syscall.EBUSY) {
							return err
						}
					}
				}); err != nil {
					t.Error(err)
				}
			})
			return group
		}
	}
	t.Skip("no control group can be made here")
	return ""
}

// When an agent dies, its commands end too, because nobody is left to end them.
func TestACommandEndsWithTheAgent(t *testing.T) {
	task := begin(t, nil, "echo; exec sleep 1000")
	entry, err := look(task.process)
	if err != nil {
		t.Fatal(err)
	}
	command := shell("echo $$; exec sleep 1000")
	entry.prepare(&Session{Sandbox: task.sandbox}, command)
	r := &running{out: frames.NewWriter(io.Discard), own: make(chan struct{})}
	defer r.closeAll()
	if err := r.start([]string{os.Args[0], "enter"}, entry, command); err != nil {
		t.Fatal(err)
	}
	awaitByte(t, "the first line of a command", r.outputs[0].from)
	r.closeAll()                                                   // as the kernel does for an agent that is killed
	_ = hang.Await(t, "the end of the helper", nil, r.helper.Wait) // its report may not have been read
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !p.Dead && p.Session == r.leader.PID {
			t.Errorf("process %+v is left", p)
		}
	}
}

// Where tasks are kept from files, the commands inside them are too. They can signal only what they start themselves.
func TestACommandReachesWhatItsTaskDoes(t *testing.T) {
	if lacking, err := paths.Try(); err != nil || len(lacking) > 0 {
		t.Skip("this kernel's Landlock can't do all of it ", err)
	}
	other := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(other, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	task := begin(t, nil, "echo mine > file; echo; exec sleep 1000")
	line := fmt.Sprintf("cat file; cat %s; kill -0 %d; echo x >> file; (cat %s) & wait; sleep 1000 & kill $!", other, os.Getpid(), other)
	for reach, want := range map[*paths.Reach]string{
		nil: "mine\nsecretsecret",
		{Hidden: filepath.Dir(task.sandbox), Own: []string{task.sandbox}}: "mine\n",
	} {
		task.reach = reach
		c := task.run(t, shell(line))
		if end := c.end(); end != (frames.End{}) || c.out.String() != want {
			t.Errorf("%+v: %+v, %q, want %q; %s", reach, end, c.out.String(), want, c.err.String())
		}
		if refused := strings.Count(c.err.String(), "ermi"); refused != map[bool]int{true: 0, false: 3}[reach == nil] { // denied, or not permitted
			t.Errorf("%+v: %s", reach, c.err.String())
		}
		if err := os.WriteFile(filepath.Join(task.sandbox, "file"), []byte("mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
