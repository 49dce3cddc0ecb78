package walls

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

func opened(t *testing.T, config Config) *Cells { return openedIn(t, t.TempDir(), config) }

func openedIn(t *testing.T, folder string, config Config) *Cells {
	config, err := config.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	cells, err := OpenCells(folder, config)
	if err != nil {
		t.Fatal(err)
	}
	if !cells.tree.Makes {
		t.Skipf("no control groups here: %s", cells.tree.Lacks)
	}
	t.Cleanup(func() {
		if err := cells.Close(); err != nil || cells.tree.Root.Exists() {
			t.Errorf("something is left: %v", err)
		}
	})
	return cells
}

// number reads a limit of a cell. version1 and version2 are the names of its file in these versions of control groups.
func number(t *testing.T, c cell.Cell, folder, version1, version2 string) int {
	t.Helper()
	name := version1
	if c.Grade == cell.Cgroup2 {
		name = version2
	}
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// An executor that runs its tasks itself may use what it and its tasks have requested. Its share of the processors
// grows and shrinks with its tasks. Its limit of memory never shrinks.
func TestExecutorsHoldWhatTheirTasksHold(t *testing.T) {
	cells := opened(t, Config{PidsMax: 100})
	ref := api.ExecutorRef{Framework: "framework-1", Executor: "own"}
	if told, err := cells.Make(t.Context(), Holding{Executor: ref, Resources: api.Scalars(0.5, 200)}); told != "" || err != nil {
		t.Fatal(told, err)
	}
	around := cells.of(ref)
	own := around.Child(cell.Own)
	check := func(when string, cpus, megabytes, pids int) {
		t.Helper()
		weight := cpus * 1024 / 1000
		if own.Grade == cell.Cgroup2 {
			weight = cpus / 10
		}
		if got := number(t, around, around.CPU, "cpu.shares", "cpu.weight"); got != weight {
			t.Errorf("%s its weight is %d, want %d", when, got, weight)
		}
		if got := number(t, own, own.Memory, "memory.limit_in_bytes", "memory.max"); got != megabytes<<20 {
			t.Errorf("%s it may use %d bytes, want %d MB", when, got, megabytes)
		}
		if got := number(t, own, own.Pids, "pids.max", "pids.max"); got != pids {
			t.Errorf("%s it may have %d processes, want %d", when, got, pids)
		}
	}
	check("alone", 1000, 200, 100)
	first, second := api.Task{ID: "t1", Resources: api.Scalars(2, 100)}, api.Task{ID: "t2", Resources: api.Scalars(1, 50), Limits: api.Limits{Mem: 80_000}}
	for _, task := range []*api.Task{&first, &second, &second} { // a task may be handed over again in the next session
		if err := cells.Hold(ref, []*api.Task{task}, nil); err != nil {
			t.Fatal(err)
		}
	}
	check("with two tasks", 4000, 380, 300)
	for range 2 {
		if err := cells.Release(api.TaskRef{Framework: "framework-1", Task: "t1"}); err != nil {
			t.Error(err)
		}
	}
	check("as long as it has not shrunk", 4000, 380, 300)
	if err := cells.Shrink(); err != nil {
		t.Fatal(err)
	}
	check("with one", 2000, 380, 200)

	again := &Cells{rules: cells.rules, tree: cells.tree, holds: newHoldings()} // as the agent's next process has it
	if err := again.Remember([]Holding{{Executor: ref, Resources: api.Scalars(0.5, 200), Tasks: []api.Task{first, second}}}); err != nil {
		t.Fatal(err)
	}
	check("as the next agent has it", 4000, 380, 300)
	if end, found, err := again.Clear(t.Context(), ref); end != (End{}) || !found || err != nil {
		t.Errorf("%+v, %v, %v", end, found, err)
	}
	if err := again.Release(api.TaskRef{Framework: "framework-1", Task: "t2"}); err != nil {
		t.Error(err)
	}
	if err := again.Shrink(); err != nil {
		t.Errorf("a task of an executor that has ended: %v", err)
	}
}

// The limits of an executor with many small tasks are not written each time that a task comes or goes. They are never
// too low, and are lowered later.
func TestManySmallTasksComeAndGo(t *testing.T) {
	cells := opened(t, Config{PidsMax: 100})
	ref := api.ExecutorRef{Framework: "framework-1", Executor: "many"}
	if told, err := cells.Make(t.Context(), Holding{Executor: ref, Resources: api.Scalars(1, 100)}); told != "" || err != nil {
		t.Fatal(told, err)
	}
	own := cells.of(ref).Child(cell.Own)
	may := func() int { return number(t, own, own.Pids, "pids.max", "pids.max") }
	id := func(i int) api.TaskID { return api.TaskID("t" + strconv.Itoa(i)) }
	hold := func(i int) {
		if err := cells.Hold(ref, []*api.Task{{ID: id(i), Resources: api.Scalars(0.01, 1)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		hold(i)
		if got := may(); got != 100*(i+2) {
			t.Fatalf("with %d tasks it may have %d processes", i+1, got)
		}
	}
	written := cells.holds.executors[ref].applied
	for i := 40; i < 80; i++ {
		if err := cells.Release(api.TaskRef{Framework: "framework-1", Task: id(i - 40)}); err != nil {
			t.Error(err)
		}
		if got := may(); got != 4100 {
			t.Errorf("after the end of a task it may have %d processes before it shrinks", got)
		}
		hold(i)
	}
	if got := cells.holds.executors[ref].applied; got != written {
		t.Errorf("forty tasks went and as many came, and the limits were written: %+v, want %+v", got, written)
	}
	for i := 40; i < 75; i++ {
		if err := cells.Release(api.TaskRef{Framework: "framework-1", Task: id(i)}); err != nil {
			t.Error(err)
		}
	}
	if err := cells.Shrink(); err != nil {
		t.Fatal(err)
	}
	if got := may(); got != 600 {
		t.Errorf("with 5 tasks left it may have %d processes", got)
	}
	if _, _, err := cells.Clear(t.Context(), ref); err != nil {
		t.Error(err)
	}
}

// An executor that needs more memory than its limit is killed, and its End says so. It is in its cell from the start.
func TestAnExecutorOutOfMemory(t *testing.T) {
	cells := opened(t, Config{})
	ref := api.ExecutorRef{Framework: "framework-1", Executor: "hungry"}
	if _, err := cells.Make(t.Context(), Holding{Executor: ref, Resources: api.Scalars(1, 40)}); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/sh", "-c", "read go; exec dd if=/dev/zero of=/dev/null bs=200M count=1")
	gate, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.SysProcAttr = &syscall.SysProcAttr{}
	begin := func() error {
		closing, err := cells.Enter(Ground{Executor: ref}, child.SysProcAttr)
		if err != nil {
			return err
		}
		defer closing()
		return child.Start()
	}
	if err := entry.Start(begin); err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if child.Wait() == nil {
		t.Error("it ended well")
	}
	end, found, err := cells.Clear(t.Context(), ref)
	if !found || err != nil || end.Reason != api.ReasonMemoryLimit || !strings.HasSuffix(end.Message, "and may use 40 MB") {
		t.Errorf("%+v, %v, %v", end, found, err)
	}
}

// TestATrialThatWasLeft: the folder for trials can be made although an agent that was killed has left one.
func TestATrialThatWasLeft(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "trial", "work", "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		trial, err := makeTrial(folder)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(trial); err != nil || len(left) > 0 {
			t.Errorf("it holds %v, %v", left, err)
		}
	}
}

// An agent that was told to use no control groups uses none, and so does one without Cells.
func TestWhatIsAskedFor(t *testing.T) {
	cells, err := OpenCells(t.TempDir(), Config{Isolation: Without})
	if err != nil {
		t.Fatal(err)
	}
	if found := cells.Found(); found.String() != "groups" {
		t.Errorf("%+v", found)
	}
	if _, err := cells.Make(t.Context(), Holding{}); err != nil {
		t.Error(err)
	}
	if _, found, err := cells.Clear(t.Context(), api.ExecutorRef{}); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	var none *Cells
	if found := none.Found(); found.String() != "groups" || len(found.Lacks) != 1 {
		t.Errorf("%+v", found)
	}
}

// When somebody has removed the control groups in which nothing runs, the next executor has all of them again, with
// their limits, and the removal is told once. Another agent still does not take them for those of an agent that is
// dead.
func TestWhatWasRemovedIsMadeAgain(t *testing.T) {
	cells := opened(t, Config{PidsMax: 100})
	var told []string
	cells.OnRemoval(func(removed string) { told = append(told, removed) })
	root, ref := cells.tree.Root, api.ExecutorRef{Framework: "framework-1", Executor: "own"}
	share := func() int { return number(t, root, root.CPU, "cpu.shares", "cpu.weight") }
	before := share()
	for range 2 {
		if err := root.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := cells.Make(t.Context(), Holding{Executor: ref, Resources: api.Scalars(0.5, 200)}); err != nil {
			t.Fatal(err)
		}
		own := cells.of(ref).Child(cell.Own)
		if got := number(t, own, own.Pids, "pids.max", "pids.max"); got != 100 || share() != before {
			t.Errorf("it may have %d processes, and the agent a share of %d; want 100 and %d", got, share(), before)
		}
		if _, _, err := cells.Clear(t.Context(), ref); err != nil {
			t.Error(err)
		}
		opened(t, Config{}) // it removes cells without an agent
		if !root.Whole() {
			t.Error("the agent's cell was taken for that of a dead one")
		}
	}
	if len(told) != 1 || told[0] != root.String() {
		t.Errorf("told %q, want %s once", told, root)
	}
}

// anotherTree returns the cells of another agent, where processes can be moved to.
func anotherTree(t *testing.T) cell.Tree {
	tree := cell.Open(cell.Place{Folder: t.TempDir()})
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// When somebody has moved a running executor out of its control group and removed the group, Mend puts the executor
// into a new one, with the limits for all that it holds. An executor that has ended gets none.
func TestARunningExecutorComesBackIntoItsCell(t *testing.T) {
	cells := opened(t, Config{PidsMax: 100})
	ref := api.ExecutorRef{Framework: "framework-1", Executor: "own"}
	if _, err := cells.Make(t.Context(), Holding{Executor: ref, Resources: api.Scalars(0.5, 200)}); err != nil {
		t.Fatal(err)
	}
	if err := cells.Hold(ref, []*api.Task{{ID: "t1", Resources: api.Scalars(2, 100)}}, nil); err != nil {
		t.Fatal(err)
	}
	elsewhere := anotherTree(t)
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it has ended, unless the test has failed
		_ = child.Wait()
	})
	own := cells.of(ref).Child(cell.Own)
	remove := func() {
		t.Helper()
		if err := elsewhere.Root.Join(child.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if err := cells.tree.Root.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cells.Join(ref, child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	remove()
	lives := func(api.ExecutorRef) int { return child.Process.Pid }
	if err := cells.Mend(ref, lives); err != nil {
		t.Fatal(err)
	}
	if populated, err := own.Populated(); !populated || err != nil {
		t.Errorf("it has not come back: %v", err)
	}
	if got := number(t, own, own.Pids, "pids.max", "pids.max"); got != 200 {
		t.Errorf("it may have %d processes, want 200", got)
	}
	if got := number(t, own, own.Memory, "memory.limit_in_bytes", "memory.max"); got != 300<<20 {
		t.Errorf("it may use %d bytes, want 300 MB", got)
	}
	remove()
	if err := cells.Mend(ref, func(api.ExecutorRef) int { return 0 }); err != nil || cells.tree.Root.Exists() {
		t.Errorf("%v; a cell for one that has ended: %v", err, cells.tree.Root.Exists())
	}
	if err := cells.Mend(ref, lives); err != nil {
		t.Fatal(err)
	}
	if _, found, err := cells.Clear(t.Context(), ref); !found || err != nil || child.Wait() == nil {
		t.Errorf("%v, %v: it did not end with its cell", found, err)
	}
}

// Where executors have control groups, system calls are denied only to tasks with namespaces. Where they have none, the
// calls are denied to the executors and all that they start. An executor of a framework is always denied them itself.
func TestWhoIsDeniedCalls(t *testing.T) {
	if err := calls.Try(); err != nil {
		t.Skip(err)
	}
	without, err := OpenCells(t.TempDir(), Config{Isolation: Without, Strict: cell.Strict{DenyCalls: true}})
	if err != nil {
		t.Fatal(err)
	}
	if found := without.Found(); !found.Has(calls.Ability) || !without.denies(true) || !without.denies(false) {
		t.Errorf("without control groups: %+v", found)
	}
	spaced := &Cells{config: Config{Isolation: Spaces, Strict: cell.Strict{DenyCalls: true}}}
	if spaced.denies(true) || !spaced.denies(false) {
		t.Error("with namespaces the built-in executor is denied what it needs to make them, or others are not")
	}
	var none *Cells
	if asked := (&Cells{config: Config{}}); asked.denies(false) || asked.Restrict(Ground{Sandbox: "/"}) != nil || none.Restrict(Ground{Sandbox: "/"}) != nil {
		t.Error("denied unasked")
	}
	opened(t, Config{}) // skips the test where there are no control groups
	if cells, err := OpenCells(t.TempDir(), Config{Isolation: Best, Strict: cell.Strict{DenyCalls: true}}); err == nil || !strings.Contains(err.Error(), `ask for isolation "namespaces" too`) {
		t.Errorf("%v, %v", cells, err)
	}
}
