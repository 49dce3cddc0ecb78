package commands

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// walled runs a test with an executor whose tasks have cells, in each grade that this machine has.
func walled(t *testing.T, test func(a *agent, around cell.Cell)) {
	for _, grade := range []cell.Grade{cell.Cgroup2, cell.Hybrid, cell.Cgroup1} {
		t.Run(string(grade), func(t *testing.T) {
			tree := cell.Open(cell.Place{Folder: t.TempDir(), Best: grade})
			around := tree.Executor("framework-1", "command")
			endAfterExecutor(t, tree, around)
			if tree.Root.Grade != grade {
				t.Skipf("this machine has %s: %s", tree.Root.Grade, tree.Lacks)
			}
			if err := around.MakeParent(); err != nil {
				t.Fatal(err)
			}
			test(startTold(t, cell.Handout{Cell: around, Rules: cell.Rules{PidsMax: 100}}.String()), around)
			if left := tasksIn(around); len(left) > 0 {
				t.Errorf("cells are left: %v", left)
			}
		})
	}
}

// endAfterExecutor ends a tree of cells at the end of the test, after its executor, which must have left no cells
// behind.
func endAfterExecutor(t *testing.T, tree cell.Tree, around cell.Cell) {
	t.Cleanup(func() {
		if left := around.Children(); len(left) > 0 {
			t.Errorf("the executor has left cells: %v", left)
		}
		ctx, cancel := context.WithTimeout(context.Background(), hang.After)
		defer cancel()
		if err := tree.Root.End(ctx); err != nil {
			t.Error(err)
		}
	})
}

// tasksIn returns the names of the tasks' cells in an executor's cell.
func tasksIn(around cell.Cell) []string {
	return slices.DeleteFunc(around.Children(), isSpare)
}

func isSpare(name string) bool { return strings.HasPrefix(name, "spare@") }

// sized is a task with a limit of memory.
func sized(id api.TaskID, shell string) api.Task {
	return api.Task{ID: id, Resources: api.Scalars(0.5, 40), Command: &api.Command{Shell: shell}}
}

// next returns the next status, whatever it says.
func (a *agent) next(id api.TaskID) protocol.ExecutorStatus {
	a.t.Helper()
	return hang.Receive(a.t, "a status of "+string(id), a.state, a.statuses)
}

// gone reports whether the process whose number a task has written to a file is dead.
func (a *agent) gone(id api.TaskID, name string) bool {
	a.t.Helper()
	pid, err := strconv.Atoi(a.read(id, name))
	if err != nil {
		a.t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// A task is in a cell of its own from its first instruction on. The cell has the task's limits, and is gone when the
// task's end is told. The task's checks are in the cell too.
func TestTasksHaveCells(t *testing.T) {
	walled(t, func(a *agent, around cell.Cell) {
		task := sized("t1", "cat /proc/self/cgroup; trap 'exit 0' TERM; touch up; while :; do sleep 0.01; done")
		task.Limits = api.Limits{Mem: 64_000, Pids: 50}
		look := api.Command{Shell: "test -e up && cat /proc/self/cgroup > look && mv look checked"}
		task.Checks = []api.Check{{Readiness: true, Command: &look, Interval: 100 * time.Millisecond, Failures: 1000}}
		a.launch(task)
		a.want("t1", api.TaskRunning)
		a.await("t1", "up")
		a.await("t1", "checked")
		its := around.Child(cell.TaskName("t1")).Brief()
		if first, check := strings.Count(a.read("t1", "stdout"), "/task@t1"), strings.Count(a.read("t1", "checked"), "/task@t1"); first == 0 || first != check {
			t.Errorf("its first program is in %d of its groups, a check in %d", first, check)
		}
		memory := map[bool]string{true: "memory.max", false: "memory.limit_in_bytes"}[its.Grade == cell.Cgroup2]
		for _, file := range []struct{ folder, name, want string }{{its.Pids, "pids.max", "50"}, {its.Memory, memory, strconv.Itoa(64_000 << 20 / 1000)}} {
			if got, err := os.ReadFile(filepath.Join(file.folder, file.name)); err != nil || strings.TrimSpace(string(got)) != file.want {
				t.Errorf("%s is %s, want %s; %v", file.name, got, file.want, err)
			}
		}
		a.send(protocol.ExecutorKill{Task: "t1", Grace: time.Hour})
		for status := a.next("t1"); status.State != api.TaskKilled; status = a.next("t1") {
			if status.State != api.TaskRunning { // RUNNING says that the check has found the task ready
				t.Fatalf("%+v", status)
			}
		}
		if its.Exists() {
			t.Error("its cell is left")
		}
	})
}

// A task that needs more memory than its limit fails for that, and its status says how much it used. A task beside it
// is not affected.
func TestMemoryLimit(t *testing.T) {
	walled(t, func(a *agent, _ cell.Cell) {
		a.launch(sized("neighbour", "exec sleep 1000"))
		a.want("neighbour", api.TaskRunning)
		a.launch(sized("hungry", "dd if=/dev/zero of=/dev/null bs=200M count=1; exit 5"))
		a.want("hungry", api.TaskRunning)
		failed := a.want("hungry", api.TaskFailed)
		if failed.Reason != api.ReasonMemoryLimit || !strings.HasSuffix(failed.Message, "MB at its peak and may use 40 MB") {
			t.Errorf("%v: %s", failed.Reason, failed.Message)
		}
		a.send(protocol.ExecutorKill{Task: "neighbour", Grace: time.Hour})
		a.want("neighbour", api.TaskKilled)
	})
}

// When the kernel kills only one process of a task for want of memory, the rest of the task is ended too, and the task
// fails for that.
func TestAMemoryLimitEndsAllOfATask(t *testing.T) {
	walled(t, func(a *agent, _ cell.Cell) {
		a.launch(sized("half", "sleep 1000 & dd if=/dev/zero of=/dev/null bs=200M count=1; exec sleep 1000"))
		a.want("half", api.TaskRunning)
		failed := a.want("half", api.TaskFailed)
		if failed.Reason != api.ReasonMemoryLimit || !strings.HasPrefix(failed.Message, "ended by signal 9 (killed): the kernel killed it for want of memory") {
			t.Errorf("%v: %s", failed.Reason, failed.Message)
		}
	})
}

// A program that starts itself without end reaches its limit, and all of its processes end, whether it ends by itself
// or is killed.
func TestPidsLimit(t *testing.T) {
	walled(t, func(a *agent, _ cell.Cell) {
		a.shell("counts", "for i in $(seq 200); do sleep 1000 & done; exit 3")
		a.want("counts", api.TaskRunning)
		failed := a.want("counts", api.TaskFailed)
		if failed.Reason != api.ReasonPidsLimit || !strings.HasSuffix(failed.Message, "it could start no more processes or threads: it may have 100") {
			t.Errorf("%v: %s", failed.Reason, failed.Message)
		}
		a.shell("bomb", "trap '' TERM; echo $$ > pid; bomb() { while :; do bomb & done 2>/dev/null; }; touch up; while :; do bomb; done")
		a.want("bomb", api.TaskRunning)
		a.await("bomb", "up")
		a.send(protocol.ExecutorKill{Task: "bomb", Grace: time.Millisecond})
		ended := a.next("bomb")
		if !ended.State.Terminal() || !a.gone("bomb", "pid") { // its shell may have ended by itself before
			t.Errorf("%v %v: %s", ended.State, ended.Reason, ended.Message)
		}
	})
}

// What a task leaves behind is gone when its end is told, even a daemon with nothing in its environment and processes
// that fork all the time.
func TestNothingIsLeftOfATask(t *testing.T) {
	walled(t, func(a *agent, _ cell.Cell) {
		a.shell("leaves", `env -i PATH=/usr/bin:/bin setsid sh -c 'trap "" TERM HUP INT; echo $$ > daemon
			spread() { while :; do sleep 0.001 & wait; done; }
			spread & spread & touch up; wait' &
			until test -e up; do sleep 0.01; done; exit 0`)
		a.want("leaves", api.TaskRunning)
		a.want("leaves", api.TaskFinished)
		if !a.gone("leaves", "daemon") {
			t.Error("a daemon is left")
		}
	})
}

// A program that can't be started leaves no cell. A program whose cell can't be made is not started.
func TestCellsOfWhatDoesNotStart(t *testing.T) {
	walled(t, func(a *agent, around cell.Cell) {
		a.launch(api.Task{ID: "none", Command: &api.Command{Argv: []string{"/no/such/program"}}})
		if failed := a.want("none", api.TaskFailed); failed.Reason != api.ReasonLaunchFailed {
			t.Errorf("%v: %s", failed.Reason, failed.Message)
		}
		if err := around.Remove(); err != nil {
			t.Fatal(err)
		}
		a.shell("outside", "touch ran")
		failed := a.want("outside", api.TaskFailed)
		if _, err := os.Stat(filepath.Join(a.folder, "outside", "ran")); err == nil || failed.Reason != api.ReasonAgentFailed || !strings.HasPrefix(failed.Message, "its control group can't be made: ") {
			t.Errorf("%v: %s", err, failed.Message)
		}
	})
}

// Children enter cells themselves, also where many are started at once. No thread of this process ever does: if its first
// one stayed there the cell could not be removed as long as the executor lives.
func TestOnlyChildrenEnterCells(t *testing.T) {
	for _, grade := range []cell.Grade{cell.Hybrid, cell.Cgroup1} {
		t.Run(string(grade), func(t *testing.T) {
			tree := cell.Open(cell.Place{Folder: t.TempDir(), Best: grade})
			its := tree.Root.Child("its")
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), hang.After)
				defer cancel()
				if err := tree.Root.End(ctx); err != nil {
					t.Error(err)
				}
			})
			if tree.Root.Grade != grade {
				t.Skipf("this machine has %s: %s", tree.Root.Grade, tree.Lacks)
			}
			if err := its.Make(); err != nil {
				t.Fatal(err)
			}
			c := &cells{Handout: cell.Handout{Cell: tree.Root}}
			name := filepath.Base(tree.Root.String()) + "/its"
			inside := fmt.Sprintf("test $(grep -c %s$ /proc/self/cgroup) = $0", name)
			ways, folder := its.Ways()
			groups := len(ways)
			if folder != "" {
				groups++
			}
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					p := &process{cell: &taskCell{Cell: its}}
					program := program{path: "/bin/sh", argv: []string{"sh", "-c", inside, strconv.Itoa(groups)}, sandbox: "/", user: entry.Self()}
					null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
					if err != nil {
						t.Error(err)
						return
					}
					defer null.Close()
					pid, err := c.startBeside(p, program, files{null.Fd(), null.Fd(), null.Fd()})
					var status syscall.WaitStatus
					if err != nil || !collect(pid, &status) || status != 0 {
						t.Errorf("%v, %x", err, status)
					}
				})
			}
			all.Wait()
			threads, err := filepath.Glob("/proc/self/task/*/cgroup")
			if err != nil || len(threads) == 0 {
				t.Fatal(err)
			}
			for _, thread := range threads {
				if is, err := os.ReadFile(thread); err == nil && strings.Contains(string(is), name) {
					t.Errorf("%s is in %s", thread, is)
				}
			}
		})
	}
}

// The end of a task whose start has failed is told only when its cell is gone. No other start waits for that.
func TestACellThatOutlivesItsStart(t *testing.T) {
	walled(t, func(a *agent, around cell.Cell) {
		if around.Grade == cell.Cgroup2 {
			t.Skip("whoever keeps a cell of version 2 is killed")
		}
		held := make(chan struct{})
		release := sync.OnceFunc(func() { close(held) })
		defer release()
		var kept sync.WaitGroup
		var late []api.TaskID
		for i := range starters() {
			id := api.TaskID("late" + strconv.Itoa(i))
			its := around.Child(cell.TaskName(string(id))).Brief()
			if err := its.Make(); err != nil {
				t.Fatal(err)
			}
			in := make(chan struct{})
			kept.Go(func() {
				entry.OnThread(func() (asBefore bool) { // a thread of this process, which prevents that the cell is removed
					closing, err := its.Start(&syscall.SysProcAttr{})
					close(in)
					<-held
					if err != nil {
						t.Error(err)
						return false
					}
					closing()
					return false // it ends, which takes it out of the cell
				})
			})
			<-in
			late = append(late, id)
			a.launch(api.Task{ID: id, Command: &api.Command{Argv: []string{"/no/such/program"}}})
		}
		a.shell("other", "exit 0")
		a.want("other", api.TaskRunning) // so the late tasks have not ended yet
		a.want("other", api.TaskFinished)
		release()
		kept.Wait()
		for range late {
			failed := a.next(late[0])
			its := around.Child(cell.TaskName(string(failed.Task))).Brief()
			if failed.State != api.TaskFailed || failed.Reason != api.ReasonLaunchFailed || !strings.Contains(failed.Message, "no such file") || its.Exists() {
				t.Errorf("%v %v: %s; its cell exists: %v", failed.State, failed.Reason, failed.Message, its.Exists())
			}
		}
	})
}

func TestWhatIsToldOfCells(t *testing.T) {
	if cells, err := newCells(""); cells != nil || err != nil {
		t.Errorf("%v, %v", cells, err)
	}
	if _, err := newCells("{"); !api.Is(err, api.Invalid) {
		t.Errorf("%v", err)
	}
}

// BenchmarkTasksInCells is BenchmarkTasks with a cell for each task. The difference is the cost of cells.
func BenchmarkTasksInCells(b *testing.B) {
	tree := cell.Open(cell.Place{Folder: b.TempDir()})
	around := tree.Executor("framework-1", "command")
	if !tree.Makes {
		b.Skip(tree.Lacks)
	}
	b.Cleanup(func() {
		if err := tree.Root.End(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := around.MakeParent(); err != nil {
		b.Fatal(err)
	}
	benchmarkTasks(b, startTold(b, cell.Handout{Cell: around, Rules: cell.Rules{PidsMax: 4096}}.String()))
}
