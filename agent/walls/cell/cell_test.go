package cell

import (
	"bufio"
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
	"time"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// planted opens the tree of a new folder. At the end of the test the tree is removed, with all that is in it.
func planted(t *testing.T, best Grade) Tree {
	t.Helper()
	tree := Open(Place{Folder: t.TempDir(), Best: best})
	if tree.Root.Grade == Groups {
		t.Skipf("no cells here: %s", tree.Lacks)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang.After)
		defer cancel()
		if err := errors.Join(tree.Root.End(ctx), tree.Close()); err != nil {
			t.Error(err)
		}
	})
	if best != "" && tree.Root.Grade != best {
		t.Skipf("this machine has %s, not %s", tree.Root.Grade, best)
	}
	return tree
}

// alsoWithout runs a test in each grade, and with a version 2 that has no controllers, as where version 1 has them.
// Whatever is not about limits must work there too.
func alsoWithout(t *testing.T, test func(t *testing.T, tree Tree)) {
	inEachGrade(t, test)
	t.Run("no controllers", func(t *testing.T) {
		tree := planted(t, "")
		if tree.Root.Unified == "" {
			t.Skip("this machine has no version 2")
		}
		bare := Cell{Grade: Cgroup2, Unified: tree.Root.Unified}
		test(t, Tree{Root: bare, Makes: true})
	})
}

// inEachGrade runs a test with what this machine has: version 1 alone, version 1 with version 2 beside it, version 2.
func inEachGrade(t *testing.T, test func(t *testing.T, tree Tree)) {
	for _, grade := range []Grade{Cgroup2, Hybrid, Cgroup1} {
		t.Run(string(grade), func(t *testing.T) { test(t, planted(t, grade)) })
	}
}

// started is a child process of the test, in a cell.
type started struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Reader
}

// start runs a line of a shell in the cell. The shell is in the cell from its first instruction on.
func start(t *testing.T, c Cell, line string) *started {
	t.Helper()
	return startBy(t, c, nil, line)
}

// startBy does the same by the cell's entrance.
func startBy(t *testing.T, c Cell, in Entrance, line string) *started {
	t.Helper()
	s := &started{Cmd: exec.Command("/bin/sh", "-c", line), t: t}
	s.SysProcAttr = &syscall.SysProcAttr{}
	output, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewReader(output)
	if err := startInside(c, in, s.Cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill() // it has ended, unless the test has failed
		_ = s.Wait()
	})
	return s
}

// startInside starts a child from a thread that moves into the cell for that, and then back, so that the cell holds the
// child alone.
func startInside(c Cell, in Entrance, child *exec.Cmd) error {
	groups, closing, err := c.Groups(in)
	if err != nil {
		return err
	}
	defer closing()
	if groups.Folder > 0 {
		startIn(child.SysProcAttr, groups.Folder)
	}
	hierarchies, err := readHierarchies("/proc")
	if err != nil {
		return err
	}
	home, _ := grow(c.Grade, hierarchies)
	if c.Devices != "" {
		home = home.addDevices(hierarchies)
	}
	back, err := home.Entrance()
	if err != nil {
		return err
	}
	defer back.Close()
	entry.OnThread(func() (asBefore bool) {
		if err = Entrance(groups.Entrance).Enter(); err == nil {
			err = child.Start()
		}
		strayed := back.Enter()
		err = errors.Join(err, strayed)
		return strayed == nil
	})
	return err
}

// line returns the next line of the child's output.
func (s *started) line() string {
	s.t.Helper()
	line := make(chan string, 1)
	go func() {
		text, _ := s.lines.ReadString('\n') // at the end of the output the line is empty
		line <- strings.TrimSpace(text)
	}()
	return hang.Receive(s.t, "a line", func() string { return s.String() }, line)
}

// end ends a cell and fails the test if anything of it is left.
func end(t *testing.T, c Cell) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang.After)
	defer cancel()
	if err := c.End(ctx); err != nil {
		t.Fatal(err)
	}
	if populated, err := c.Populated(); populated || err != nil || c.Exists() {
		t.Errorf("populated %v, %v; exists %v", populated, err, c.Exists())
	}
}

// made makes a new cell with limits.
func made(t *testing.T, tree Tree, name string, l Limits) Cell {
	t.Helper()
	c := tree.Root.Child(name)
	if err := errors.Join(c.Make(), c.Limit(l)); err != nil {
		t.Fatal(err)
	}
	return c
}

// A child is in its cell before its first instruction, in every hierarchy, and so are its children.
func TestChildrenAreBornInside(t *testing.T) {
	alsoWithout(t, func(t *testing.T, tree Tree) {
		c := made(t, tree, "task@1", Limits{CPUs: 1000})
		s := start(t, c, "cat /proc/self/cgroup; echo; exec sleep 1000")
		groups := ""
		for line := s.line(); line != ""; line = s.line() {
			groups += line + "\n"
		}
		if got := strings.Count(groups, "/task@1\n"); got != len(c.folders()) {
			t.Errorf("it is in %d groups of the cell, want %d:\n%s", got, len(c.folders()), groups)
		}
		if usage, err := c.Usage(); err != nil || usage.Processes != 1 {
			t.Errorf("%+v, %v; want one process", usage, err)
		}
		end(t, c)
	})
}

// A process that needs more memory than the limit of its cell is killed by the kernel. The cell reports this, and its
// peak. Nothing happens to the cell beside it.
func TestMemoryIsLimited(t *testing.T) {
	inEachGrade(t, func(t *testing.T, tree Tree) {
		const most = 16 << 20
		hungry := made(t, tree, "task@hungry", Limits{CPUs: 100, Memory: most, Pids: 100})
		neighbour := made(t, tree, "task@neighbour", Limits{CPUs: 100, Memory: most, Pids: 100})
		innocent := start(t, neighbour, "echo here; exec sleep 1000")
		innocent.line()
		s := start(t, hungry, "exec dd if=/dev/zero of=/dev/null bs=256M count=1")
		var exit *exec.ExitError
		if err := s.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %v, want SIGKILL", err)
		}
		events, err := hungry.Events()
		if peak := hungry.Peak(); err != nil || events.MemoryKills == 0 || peak > most || peak < most/2 {
			t.Errorf("%+v, peak %d, %v", events, peak, err)
		}
		if events, err := neighbour.Events(); err != nil || events != (Events{}) {
			t.Errorf("the neighbour: %+v, %v", events, err)
		}
		if populated, err := neighbour.Populated(); !populated || err != nil {
			t.Errorf("the neighbour is gone: %v", err)
		}
		end(t, hungry)
		end(t, neighbour)
	})
}

// A program that starts itself again and again gets as far as its limit, and can be killed as a whole while it does so.
func TestForkBombsEnd(t *testing.T) {
	inEachGrade(t, func(t *testing.T, tree Tree) {
		c := made(t, tree, "task@bomb", Limits{CPUs: 100, Pids: 50})
		start(t, c, `bomb() { while :; do bomb & done; }; bomb`)
		for events, err := c.Events(); events.PidsRefused == 0; events, err = c.Events() {
			if err != nil {
				t.Fatal(err)
			}
			runtime.Gosched()
		}
		end(t, c)
	})
}

// A process that leaves its session and group, clears its environment and ignores every signal is still in the cell.
func TestDaemonsEnd(t *testing.T) {
	alsoWithout(t, func(t *testing.T, tree Tree) {
		c := made(t, tree, "task@daemon", Limits{})
		s := start(t, c, `env -i setsid sh -c "trap '' TERM HUP INT; (trap '' TERM; echo \$\$; exec sleep 1000) & wait" & `)
		pid, err := strconv.Atoi(s.line())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(c.listed(), pid) {
			t.Errorf("process %d has left the cell: %v", pid, c.listed())
		}
		end(t, c)
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH && !zombie(pid) {
			t.Errorf("process %d: %v", pid, err)
		}
	})
}

// zombie reports whether a process is a zombie, or is gone. Orphans that have died stay zombies where nobody reaps
// them.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

// A task of root may move itself out of its cell in one hierarchy. It is still found, and killed, by the others.
func TestWhoMovesIsFound(t *testing.T) {
	tree := planted(t, Hybrid)
	c := made(t, tree, "task@mover", Limits{Pids: 10})
	s := start(t, c, "echo $$ > "+filepath.Dir(tree.Root.Unified)+"/cgroup.procs; echo moved; exec sleep 1000")
	s.line()
	if populated, err := c.Populated(); populated || err != nil {
		t.Fatalf("it has not moved: %v", err)
	}
	end(t, c)
	if err := s.Wait(); err == nil {
		t.Error("it ended well")
	}
}

// An agent was killed, and nothing that it knew is left. The next agent with the same folder finds its cells, keeps
// those that it names, and ends the others with all that is in them.
func TestTheNextAgentFindsThem(t *testing.T) {
	folder := t.TempDir()
	first := Open(Place{Folder: folder})
	if first.Root.Grade == Groups {
		t.Skipf("no cells here: %s", first.Lacks)
	}
	kept, lost := first.Executor("framework-1", "kept"), first.Executor("framework-1", "lost")
	var lives []*started
	for _, c := range []Cell{kept, lost} {
		own := c.Child(Own)
		if err := errors.Join(c.MakeParent(), own.Make()); err != nil {
			t.Fatal(err)
		}
		lives = append(lives, start(t, own, "echo here; exec sleep 1000"))
		lives[len(lives)-1].line()
	}
	if err := first.Close(); err != nil || !first.Root.Exists() {
		t.Errorf("a tree with somebody in it was closed: %v", err)
	}

	second := Open(Place{Folder: folder, Best: Groups})
	if second.Root != first.Root || second.Makes {
		t.Errorf("found %+v, want %+v", second, first)
	}
	if err := second.Sweep(t.Context(), map[string]bool{ExecutorName("framework-1", "kept"): true}); err != nil {
		t.Error(err)
	}
	if lost.Exists() {
		t.Error("what nobody knows is still there")
	}
	if populated, err := kept.Populated(); !populated || err != nil {
		t.Errorf("what somebody knows is gone: %v", err)
	}
	end(t, kept)
	if err := second.Close(); err != nil || second.Root.Exists() {
		t.Errorf("the tree is left: %v", err)
	}
	for _, life := range lives {
		if life.Wait() == nil {
			t.Error("it ended well")
		}
	}
}

// The usage of a cell includes that of the cells in it.
func TestUsageIsMeasured(t *testing.T) {
	inEachGrade(t, func(t *testing.T, tree Tree) {
		c := tree.Root.Child("executor")
		own := c.Child(Own)
		if err := errors.Join(c.MakeParent(), own.Make()); err != nil {
			t.Fatal(err)
		}
		s := start(t, own, "while :; do :; done")
		for usage, err := c.Usage(); usage.CPU < 20*time.Millisecond || usage.Memory == 0 || usage.Processes != 1; usage, err = c.Usage() {
			if err != nil {
				t.Fatal(err)
			}
			if s.ProcessState != nil {
				t.Fatal("it has ended")
			}
			runtime.Gosched()
		}
		end(t, c)
	})
}

// Different things have different names, and none has the name of a file that the kernel makes.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := map[string]bool{}
	for _, parts := range [][2]string{
		{"a", "b@c"}, {"a@b", "c"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {long, "a"}, {long, "b"}, {"a", "b\nc"}, {"cgroup", "procs"}, {"a b", "c"},
		{"hashed", "@x"}, {"..", "."},
	} {
		name := ExecutorName(parts[0], parts[1])
		if seen[name] || len(name) > 255 || strings.ContainsAny(name, "/\n ") || !strings.Contains(name, "@") {
			t.Errorf("%q and %q: %q", parts[0], parts[1], name)
		}
		seen[name] = true
	}
}

// An agent that starts removes the cells beside its own of agents that were killed and never came back, unless
// something runs in them. The cells of an agent that lives stay, even when they are empty, and so does a foreign group
// whose name begins as theirs do.
func TestTheDeadAreRemoved(t *testing.T) {
	alive, dead, busy := planted(t, ""), planted(t, ""), planted(t, "")
	for _, tree := range []*Tree{&dead, &busy} {
		tree.release() // as the kernel does when an agent is killed
	}
	own := busy.Executor("framework-1", "x").Child(Own)
	if err := errors.Join(dead.Executor("framework-1", "x").MakeParent(), busy.Executor("framework-1", "x").MakeParent(), own.Make()); err != nil {
		t.Fatal(err)
	}
	s := start(t, own, "echo here; exec sleep 1000")
	s.line()
	foreign := alive.Root.move(filepath.Dir).Child(fmt.Sprintf("tender-backup-%d", os.Getpid()))
	if err := foreign.Make(); err != nil {
		t.Fatal(err)
	}
	defer end(t, foreign)
	planted(t, "")
	if !alive.Root.Whole() || dead.Root.Exists() || !own.Exists() || !foreign.Whole() {
		t.Errorf("alive %v, dead %v, busy %v, foreign %v", alive.Root.Whole(), dead.Root.Exists(), own.Exists(), foreign.Whole())
	}
	end(t, busy.Root)
}
