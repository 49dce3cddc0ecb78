package commands

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// sparing runs a test with an executor whose cells are used again.
func sparing(t *testing.T, test func(a *agent, around cell.Cell)) {
	walled(t, func(a *agent, around cell.Cell) {
		if !around.Brief().CanSpare() {
			a.t.Skip("this kernel's cells are not used again")
		}
		test(a, around)
	})
}

// group returns a number by which a cell's memory group is known again under another name.
func (a *agent) group(c cell.Cell) uint64 {
	a.t.Helper()
	var is syscall.Stat_t
	if err := syscall.Stat(c.Memory, &is); err != nil {
		a.t.Fatal(err)
	}
	return is.Ino
}

// sparesIn returns the names of the spares in the cell of an executor.
func sparesIn(around cell.Cell) []string {
	return slices.DeleteFunc(around.Children(), func(name string) bool { return !isSpare(name) })
}

// hold starts a task that runs until it is killed, and returns its cell. By then the task's shell has done the lines of
// its command.
func (a *agent) hold(around cell.Cell, task api.Task) cell.Cell {
	a.t.Helper()
	task.Command.Shell += "\n: > up; exec sleep 1000"
	a.launch(task)
	a.want(task.ID, api.TaskRunning)
	a.await(task.ID, "up")
	return cellOf(around, task.ID)
}

// cellOf returns the cell of a task as agents see it: its groups for processors and for processes may have other names.
func cellOf(around cell.Cell, task api.TaskID) cell.Cell {
	its := around.Child(cell.TaskName(string(task))).Brief()
	its.CPU, its.Pids = "", ""
	return its
}

// finish ends a task that was held.
func (a *agent) finish(id api.TaskID) {
	a.t.Helper()
	a.send(protocol.ExecutorKill{Task: id, Grace: time.Hour})
	a.want(id, api.TaskKilled)
}

// The next task has the groups of the task before, and what that has used does not count for it.
func TestCellsAreUsedAgain(t *testing.T) {
	sparing(t, func(a *agent, around cell.Cell) {
		first := a.hold(around, sized("first", "dd if=/dev/zero of=/dev/null bs=20M count=1; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"))
		its := a.group(first)
		before, err := first.Usage()
		if err != nil || first.Peak() < 20<<20 {
			a.t.Errorf("%v; its peak is %d", err, first.Peak())
		}
		a.finish("first")
		second := a.hold(around, sized("second", ""))
		if a.group(second) != its {
			a.t.Error("it has other groups")
		}
		used, err := second.Usage()
		if peak := second.Peak(); err != nil || used.CPU >= before.CPU/2 || peak > 10<<20 || used.Processes != 1 {
			a.t.Errorf("it has used %+v (%v), at its peak %d; the one before %+v", used, err, peak, before)
		}
		a.finish("second")
		if spares := sparesIn(around); len(spares) != 1 || spares[0] != cell.SpareName(1) {
			t.Errorf("the groups of both are %v, want those that were renamed first", spares)
		}
	})
}

// A task is given only groups of a task that had the same limits.
func TestSparesHaveLimits(t *testing.T) {
	sparing(t, func(a *agent, around cell.Cell) {
		small := a.group(a.hold(around, sized("small", "")))
		a.finish("small")
		unlimited := api.Task{ID: "unlimited", Resources: api.Scalars(0.5, 0), Command: &api.Command{}}
		large := sized("large", "")
		large.Limits = api.Limits{Mem: 64_000}
		for _, task := range []api.Task{large, unlimited} {
			its := a.hold(around, task)
			if a.group(its) == small {
				a.t.Errorf("%s has the groups of one with other limits", task.ID)
			}
			a.finish(task.ID)
		}
		if again := a.group(a.hold(around, sized("again", ""))); again != small {
			a.t.Error("its groups are not those of one with its limits")
		}
		a.finish("again")
	})
}

// A limit that one task has reached is never told of another one. A group in which a limit was reached, or in which
// something is left, is not used again.
func TestGroupsWithAPastAreNotUsedAgain(t *testing.T) {
	sparing(t, func(a *agent, around cell.Cell) {
		for i, one := range []struct{ name, line string }{
			{"memory, and it fails", "dd if=/dev/zero of=/dev/null bs=200M count=1; exit 5"},
			{"memory, and it ends well", "dd if=/dev/zero of=/dev/null bs=200M count=1; exit 0"},
			{"processes, and it ends well", "(for i in $(seq 200); do sleep 1000 & done); exit 0"},
			{"a daemon", `env -i PATH=/usr/bin:/bin setsid sh -c 'trap "" TERM HUP INT; echo $$ > daemon; touch up; exec sleep 1000' & until test -e up; do :; done; exit 0`},
			{"cached files", "dd if=/dev/zero of=file bs=1M count=8; exit 0"},
			{"a limit that it has written itself", "echo 50 > PIDS/pids.max; exit 0"},
		} {
			id := api.TaskID(fmt.Sprintf("past%d", i))
			its := around.Child(cell.TaskName(string(id)))
			a.launch(sized(id, strings.ReplaceAll(one.line, "PIDS", its.Pids)))
			for status := a.next(id); !status.State.Terminal(); status = a.next(id) { // it fails if its limit is noticed while it lives
			}
			if left := around.Children(); len(left) > 0 {
				a.t.Errorf("%s: %v is left", one.name, left)
			}
			next := api.TaskID(fmt.Sprintf("next%d", i))
			a.launch(sized(next, "exit 7"))
			a.want(next, api.TaskRunning)
			if failed := a.want(next, api.TaskFailed); failed.Reason != api.ReasonNone || failed.Message != "exited with 7" {
				a.t.Errorf("after %s: %v: %s", one.name, failed.Reason, failed.Message)
			}
			a.endSpares(around)
		}
	})
}

// endSpares removes all spares, without the executor's knowledge.
func (a *agent) endSpares(around cell.Cell) {
	a.t.Helper()
	for _, name := range sparesIn(around) {
		if err := around.Child(name).Remove(); err != nil {
			a.t.Error(err)
		}
	}
}

// However many tasks end at once, at most sparesMax cells wait for later tasks: the newest ones.
func TestSparesAreBounded(t *testing.T) {
	sparing(t, func(a *agent, around cell.Cell) {
		const tasks = sparesMax + 5
		for i := range tasks {
			a.hold(around, api.Task{ID: api.TaskID("t" + strconv.Itoa(i)), Command: &api.Command{}})
		}
		for i := range tasks {
			a.finish(api.TaskID("t" + strconv.Itoa(i)))
		}
		left := sparesIn(around)
		if len(left) != sparesMax || slices.Contains(left, cell.SpareName(1)) || !slices.Contains(left, cell.SpareName(tasks)) {
			a.t.Errorf("%d are kept: %v", len(left), left)
		}
	})
}

// A task is started in new groups if somebody has removed a part of its spare.
func TestSparesThatAreGone(t *testing.T) {
	sparing(t, func(a *agent, around cell.Cell) {
		a.hold(around, sized("before", ""))
		a.finish("before")
		spares := sparesIn(around)
		if len(spares) != 1 {
			a.t.Fatalf("there are %v", spares)
		}
		if err := os.Remove(around.Child(spares[0]).CPU); err != nil {
			a.t.Fatal(err)
		}
		after := a.hold(around, sized("after", ""))
		if !after.Whole() || strings.Contains(fmt.Sprint(around.Children()), spares[0]) {
			a.t.Errorf("its cell is whole: %v; there are %v", after.Whole(), around.Children())
		}
		a.finish("after")
	})
}

// The groups of a task that was never started, and groups with rules for devices, are not used again.
func TestGroupsThatAreNotKept(t *testing.T) {
	sparing(t, func(a *agent, around cell.Cell) {
		a.launch(api.Task{ID: "none", Command: &api.Command{Argv: []string{"/no/such/program"}}})
		a.want("none", api.TaskFailed)
		if left := around.Children(); len(left) > 0 {
			t.Errorf("%v are left of a task that was never started", left)
		}
	})
	tree := cell.Open(cell.Place{Folder: t.TempDir(), Devices: true})
	around := tree.Executor("framework-1", "command")
	endAfterExecutor(t, tree, around)
	if tree.Root.Devices == "" {
		t.Skip("no rules for devices here: " + tree.Lacks)
	}
	if err := around.MakeParent(); err != nil {
		t.Fatal(err)
	}
	a := startTold(t, cell.Handout{Cell: around}.String())
	a.hold(around, sized("gpus", ""))
	a.finish("gpus")
	if left := around.Children(); len(left) > 0 {
		t.Errorf("%v are left of a task with rules for devices", left)
	}
}

// Whether a cell may be kept is known before its groups are touched.
func TestWhichCellsMayBeKept(t *testing.T) {
	for _, test := range []struct {
		name    string
		process process
		closing bool
		may     bool
	}{
		{"it has ended", process{}, false, true},
		{"it was killed", process{killed: true, status: 9}, false, true},
		{"it was never started", process{refused: os.ErrNotExist}, false, false},
		{"it has reached a limit", process{limit: cell.Reached{Memory: true}}, false, false},
		{"a check may be about to enter", process{check: &check{}}, false, false},
		{"the executor ends", process{}, true, false},
	} {
		x := newCommands(nil, nil)
		x.closing = test.closing
		if may := x.mayKeepCell(&test.process); may != test.may {
			t.Errorf("%s: %v", test.name, may)
		}
	}
}
