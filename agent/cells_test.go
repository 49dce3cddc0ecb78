package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// cellsOf returns the cell in which the agent has its cells. It skips the test where there are no control groups.
func cellsOf(t *testing.T, a *running) cell.Cell {
	t.Helper()
	<-a.Ready()
	found := a.walls.cells.Found()
	if found.Has(string(cell.Groups)) {
		t.Skipf("no control groups here: %v", found.Lacks)
	}
	return cell.Open(cell.Place{Folder: a.config.DataDir}).Root
}

// pidIn waits until a task has written a PID into a file of its sandbox, and returns that process.
func pidIn(t *testing.T, config Config, task, name string) core.Process {
	t.Helper()
	path := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", task, name)
	return hang.Await(t, path, func() string { return "" }, func() core.Process {
		for {
			text, _ := os.ReadFile(path) // an error means that the file does not exist yet
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && strings.HasSuffix(string(text), "\n") {
				stat, _ := proc.Read(pid) // a process that has ended has no start time
				return core.Process{PID: pid, Start: stat.Start}
			}
			runtime.Gosched()
		}
	})
}

// killExecutors kills executors that wait for another agent.
func killExecutors(t *testing.T, a *running) {
	t.Helper()
	for _, run := range a.runs.all() {
		if err := syscall.Kill(run.process.ID().PID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

// daemon is a line of shell that leaves a process behind which no session, group or environment points to.
const daemon = `env -i /usr/bin/setsid /bin/sh -c 'trap "" TERM HUP; echo $$ > pid; exec sleep 1000' & `

// An executor dies by accident while its task has a hidden daemon. The end of the task is told when the daemon is gone.
func TestADeadExecutorLeavesNothing(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	a := run(t, config)
	root := cellsOf(t, a)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", daemon+"exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	hidden := pidIn(t, config, "t1", "pid")
	executor := a.runs.all()[0].process.ID()
	if err := syscall.Kill(executor.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	failed := master.status("t1", api.TaskFailed)
	if failed.Reason != api.ReasonAgentFailed || proc.Alive(hidden.PID, hidden.Start) {
		t.Errorf("%v %s; the daemon lives: %v", failed.Reason, failed.Message, proc.Alive(hidden.PID, hidden.Start))
	}
	a.end()
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
}

// When an agent comes back, it finds what runs by its cells and ends what it does not know: an executor that was
// started just before the agent was killed and could write it down, and one of an earlier test that was killed.
func TestCellsOutliveTheAgent(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.RecoveryTimeout = 0 // 15 minutes
	first := run(t, config)
	root := cellsOf(t, first)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	first.end()
	stray := root.Child(cell.ExecutorName("f9", "lost"))
	if err := errors.Join(stray.MakeParent(), stray.Child(cell.Own).Make()); err != nil {
		t.Fatal(err)
	}
	config.RecoveryTimeout = -1
	master.forget()
	second := run(t, config)
	<-second.Ready()
	if stray.Exists() {
		t.Error("a cell that nobody knows was kept")
	}
	executor := root.Child(cell.ExecutorName("f1", string(api.CommandExecutor)))
	if populated, err := executor.Populated(); !populated || err != nil {
		t.Errorf("the executor is gone: %v", err)
	}
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "t1"}, Reason: api.ReasonKilledByFramework})
	master.status("t1", api.TaskKilled)
	killExecutors(t, second)
	second.end()
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
}

// withSpare has the command executor of a new agent keep the cell of a task that has ended, beside t2 that runs, and returns
// the agent's cell and the executor's. The test is skipped where no cells are kept.
func withSpare(t *testing.T, a *running, master *script) (root, around cell.Cell) {
	t.Helper()
	root = cellsOf(t, a)
	around = root.Child(cell.ExecutorName("f1", string(api.CommandExecutor)))
	if !around.Brief().CanSpare() {
		t.Skip("this kernel's cells are not used again")
	}
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t2", "exec sleep 1000"))
	master.status("t2", api.TaskRunning)
	master.launch(command("t1", "exit 0"))
	master.status("t1", api.TaskFinished)
	if names := around.Children(); !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "spare@") }) {
		t.Fatalf("no cell is kept: %v", names)
	}
	return root, around
}

// An executor is killed: the cells that it has kept for next tasks go with its own.
func TestSparesGoWithTheirExecutor(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	a := run(t, config)
	_, around := withSpare(t, a, master)
	killExecutors(t, a)
	master.status("t2", api.TaskFailed)
	if around.Exists() {
		t.Errorf("%v are left", around.Children())
	}
	a.end()
}

// An executor is killed while there is no agent: the next one removes what it has kept.
func TestTheNextAgentRemovesSpares(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.RecoveryTimeout = 0 // 15 minutes
	first := run(t, config)
	root, around := withSpare(t, first, master)
	executor := first.runs.all()[0].process
	first.end()
	if err := syscall.Kill(executor.ID().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !around.Exists() {
		t.Error("the cells of an executor that was killed are gone by themselves")
	}
	config.RecoveryTimeout = -1
	master.forget()
	second := run(t, config)
	master.status("t2", api.TaskFailed)
	if around.Exists() {
		t.Errorf("after the next agent has come %v are left", around.Children())
	}
	second.end()
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
}

// What an agent has found on its machine becomes an attribute, which the configuration can't set.
func TestIsolationIsAnAttribute(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Attributes = map[string]string{"rack": "r1"}
	config.Walls.Isolation = walls.Without
	run(t, config)
	first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if got := first.Agent.Attributes; got["isolation"] != "groups" || got["rack"] != "r1" || len(config.Attributes) != 1 {
		t.Errorf("%v", got)
	}
	config.Attributes = map[string]string{"isolation": "perfect"}
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "attribute isolation=perfect can't be given to an agent") {
		t.Errorf("%v", err)
	}
	config = testConfig(t, master.address)
	config.Walls.Isolation = "magic"
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), `isolation "magic" is not known`) {
		t.Errorf("%v", err)
	}
}

// A task that needs more memory than it has asked for fails, and its agent says why. The task beside it lives on. What
// both really use is measured by their walls.
func TestATaskIsHeldToWhatItAsksFor(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	a := run(t, config)
	cellsOf(t, a)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("neighbour", "exec sleep 1000"))
	master.status("neighbour", api.TaskRunning)
	master.launch(command("hungry", "exec dd if=/dev/zero of=/dev/null bs=200M count=1"))
	failed := master.status("hungry", api.TaskFailed)
	if failed.Reason != api.ReasonMemoryLimit || !strings.HasSuffix(failed.Message, "and may use 32 MB") {
		t.Errorf("%v: %s", failed.Reason, failed.Message)
	}
	ref := api.ExecutorRef{Framework: "f1", Executor: api.CommandExecutor}
	_, whole, found := a.walls.cells.Measure(ref, "")
	_, task, foundTask := a.walls.cells.Measure(ref, "neighbour")
	if !found || !foundTask || whole.Processes != 2 || task.Processes != 1 || task.Memory == 0 || whole.Memory < task.Memory {
		t.Errorf("the executor uses %+v (%v), its task %+v (%v)", whole, found, task, foundTask)
	}
	if _, _, found := a.walls.cells.Measure(ref, "hungry"); found {
		t.Error("a task that has ended still uses something")
	}
}

// Somebody removes the control groups of an agent between two tasks, also those of an executor that waits for the next
// task. That task has the same walls as the first one, including its limit, and one line of the log says so.
func TestWhatIsRemovedBetweenTwoTasksIsMadeAgain(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	var said bytes.Buffer
	config.Logger = zerolog.New(zerolog.SyncWriter(&said))
	elsewhere := cell.Open(cell.Place{Folder: t.TempDir()}) // the cells of another agent
	t.Cleanup(func() {
		if err := elsewhere.Close(); err != nil {
			t.Error(err)
		}
	})
	a := run(t, config)
	root := cellsOf(t, a)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "exit 0"))
	master.status("t1", api.TaskFinished)
	for _, task := range []api.TaskID{"t2", "t3"} {
		for _, run := range a.runs.all() {
			if err := elsewhere.Root.Join(run.process.ID().PID); err != nil {
				t.Fatal(err)
			}
		}
		if err := root.Remove(); err != nil || root.Exists() {
			t.Fatalf("the control groups are still there: %v", err)
		}
		master.launch(command(task, "grep -c /task@"+string(task)+" /proc/self/cgroup; exec dd if=/dev/zero of=/dev/null bs=200M count=1"))
		if failed := master.status(task, api.TaskFailed); failed.Reason != api.ReasonMemoryLimit {
			t.Errorf("%s: %v %s", task, failed.Reason, failed.Message)
		}
	}
	a.end()
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
	if got := strings.Count(said.String(), "somebody has removed control groups of this agent"); got != 1 {
		t.Errorf("it was told %d times: %s", got, said.String())
	}
}
