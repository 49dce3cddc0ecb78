package cell

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// spareLimits are the limits of the cells that these tests make.
var spareLimits = Limits{CPUs: 100, Quota: 500, Memory: 64<<20 + 1, Pids: 100} // the memory is not a whole number of pages

// spareable opens a tree whose cells can become spares.
func spareable(t *testing.T) Tree {
	t.Helper()
	tree := planted(t, Hybrid)
	if !tree.Root.Brief().CanSpare() {
		t.Skip("this machine has not all controllers")
	}
	return tree
}

// run runs a line of a shell in the cell, and waits for its end.
func run(t *testing.T, c Cell, line string) {
	t.Helper()
	_ = start(t, c, line).Wait() // it does not matter how it ends
}

// setAside makes a spare of an empty cell.
func setAside(t *testing.T, tree Tree, c Cell) Cell {
	t.Helper()
	spare, err := c.SetAside(tree.Root.Child(SpareName(1)).Brief())
	if err != nil {
		t.Fatal(err)
	}
	if c.Exists() {
		t.Errorf("something is left where it was: %v", c)
	}
	return spare
}

// isAsNew looks at a spare by its files.
func isAsNew(t *testing.T, spare Cell) bool {
	t.Helper()
	grip, err := spare.Grip()
	if err != nil {
		t.Fatal(err)
	}
	defer grip.Close()
	return grip.IsAsNew()
}

// inode returns a number by which a group is known again under another name.
func inode(t *testing.T, folder string) uint64 {
	t.Helper()
	var is syscall.Stat_t
	if err := syscall.Stat(folder, &is); err != nil {
		t.Fatal(err)
	}
	return is.Ino
}

// A task that takes a spare over finds nothing in it of the task before: the groups are the same, but all counts begin
// at zero.
func TestASpareIsTakenOver(t *testing.T) {
	tree := spareable(t)
	first := made(t, tree, "task@1", spareLimits).Brief()
	run(t, first, "dd if=/dev/zero of=/dev/null bs=40M count=1; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if used, err := first.Usage(); err != nil || used.CPU == 0 || first.Peak() < 40<<20 {
		t.Fatalf("%+v, %v, peak %d: it has used nothing", used, err, first.Peak())
	}
	groups := []uint64{inode(t, first.Memory), inode(t, first.CPU), inode(t, first.Pids)}
	spare := setAside(t, tree, first)
	grip, err := spare.Grip()
	if err != nil {
		t.Fatal(err)
	}
	defer grip.Close()
	if !grip.IsAsNew() || !spare.IsUntouched(spareLimits) {
		t.Error("it is not as new")
	}
	named := tree.Root.Child("task@2").Brief()
	second, err := named.TakeOver(spare)
	if err != nil || !second.Whole() || second.Memory != named.Memory || second.Unified != named.Unified || second.CPU != spare.CPU {
		t.Fatalf("%v; whole %v: %+v", err, second.Whole(), second)
	}
	for i, folder := range []string{second.Memory, second.CPU, second.Pids} {
		if inode(t, folder) != groups[i] {
			t.Errorf("%s is another group", folder)
		}
	}
	used, err := second.Usage()
	if peak := second.Peak(); err != nil || used.CPU != 0 || used.Memory > spareBytesMax || used.Processes != 0 || peak > spareBytesMax {
		t.Errorf("%+v, %v, peak %d", used, err, peak)
	}
	if reached, err := second.Reached(); err != nil || reached != (Reached{}) || !second.has(spareLimits) {
		t.Errorf("%+v, %v; its limits are the same: %v", reached, err, second.has(spareLimits))
	}
	s := startBy(t, second, grip.Entrance(), "cat /proc/self/cgroup | grep -c -e /task@2$ -e /spare@1$")
	if groups := s.line(); groups != "4" {
		t.Errorf("the next task is in %s groups", groups)
	}
	if grip.IsAsNew() {
		t.Error("it is as new, with a process in it that nobody has waited for")
	}
	_ = s.Wait()
	if again, err := second.SetAside(spare); err != nil || again != spare || second.Memory == spare.Memory {
		t.Errorf("it is %+v again, %v", again, err)
	}
	end(t, spare)
}

// A cell in which a task, or an operator, has left something behind is not used for the next task.
func TestNotEveryCellIsAsNew(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct {
		name  string
		leave func(t *testing.T, c Cell)
		asNew bool
	}{
		{"nothing", func(t *testing.T, c Cell) { run(t, c, "exit 0") }, true},
		{"no room for a process", func(t *testing.T, c Cell) {
			run(t, c, "echo 1 > "+c.Pids+"/pids.max; sleep 0; exit 3")
			overwrite(t, c.Pids, "pids.max", "100")
		}, false},
		{"no room in memory", func(t *testing.T, c Cell) { run(t, c, "dd if=/dev/zero of=/dev/null bs=100M count=1; exit 0") }, false},
		{"a cached file", func(t *testing.T, c Cell) {
			run(t, c, "dd if=/dev/zero of="+filepath.Join(folder, "cached")+" bs=1M count=8")
		}, false},
		{"one that nobody has waited for", leaveDead, false},
		{"one that has moved elsewhere for memory", func(t *testing.T, c Cell) { leaveLiving(t, c.Memory) }, false},
		{"one that has moved elsewhere for processors", func(t *testing.T, c Cell) { leaveLiving(t, c.CPU) }, false},
		{"one that has moved elsewhere for processes", func(t *testing.T, c Cell) { leaveLiving(t, c.Pids) }, false},
		{"a group", func(t *testing.T, c Cell) {
			if err := os.Mkdir(filepath.Join(c.CPU, "inner"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"more memory", func(t *testing.T, c Cell) {
			overwrite(t, c.Memory, "memory.memsw.limit_in_bytes", "-1")
			overwrite(t, c.Memory, "memory.limit_in_bytes", "-1")
		}, false},
		{"fewer processes", func(t *testing.T, c Cell) { overwrite(t, c.Pids, "pids.max", "0") }, false},
		{"another share", func(t *testing.T, c Cell) { overwrite(t, c.CPU, "cpu.shares", "1024") }, false},
		{"another quota", func(t *testing.T, c Cell) { overwrite(t, c.CPU, "cpu.cfs_quota_us", "-1") }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := spareable(t)
			c := made(t, tree, "task@1", spareLimits).Brief()
			test.leave(t, c)
			spare := setAside(t, tree, c)
			if got := isAsNew(t, spare) && spare.IsUntouched(spareLimits); got != test.asNew {
				t.Errorf("as new: %v, want %v", got, test.asNew)
			}
			if spare.IsUntouched(Limits{CPUs: 100}) {
				t.Error("it has no limits, it seems")
			}
			end(t, spare)
		})
	}
}

// overwrite writes a file of the kernel, if this kernel has that file.
func overwrite(t *testing.T, folder, name, word string) {
	t.Helper()
	if err := ignoreMissing(write(folder, name, word)); err != nil {
		t.Fatal(err)
	}
}

// leaveDead leaves a zombie in a cell, which is reaped only at the end of the test.
func leaveDead(t *testing.T, c Cell) {
	t.Helper()
	s := start(t, c, "exit 0")
	for !zombie(s.Process.Pid) {
		runtime.Gosched()
	}
}

// leaveLiving moves a process that was started outside the cell into one of the cell's folders.
func leaveLiving(t *testing.T, folder string) {
	t.Helper()
	s := start(t, Cell{}, "echo here; exec sleep 1000")
	s.line()
	if err := write(folder, "cgroup.procs", strconv.Itoa(s.Process.Pid)); err != nil {
		t.Fatal(err)
	}
}

// A cell in which a process lives is not set aside, and keeps its names.
func TestACellThatLivesIsNotSetAside(t *testing.T) {
	tree := spareable(t)
	c := made(t, tree, "task@1", spareLimits).Brief()
	s := start(t, c, "echo here; exec sleep 1000")
	s.line()
	if _, err := c.SetAside(tree.Root.Child(SpareName(1)).Brief()); !errors.Is(err, syscall.EBUSY) || !c.Whole() {
		t.Errorf("%v; it is whole: %v", err, c.Whole())
	}
	end(t, c)
}

// A spare that can't be taken over keeps its names, and so does a cell that can't be set aside. It can't when another
// cell has the new name, or when somebody has removed a part of it.
func TestSparesThatCannotMove(t *testing.T) {
	tree := spareable(t)
	taken := tree.Root.Child("task@taken").Brief()
	for _, there := range []string{taken.Unified, taken.Memory} {
		spare := setAside(t, tree, made(t, tree, "task@1", spareLimits).Brief())
		if err := os.Mkdir(there, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := taken.TakeOver(spare); !errors.Is(err, os.ErrExist) || !isAsNew(t, spare) {
			t.Errorf("%s is there: %v; the spare is as new: %v", there, err, isAsNew(t, spare))
		}
		end(t, spare)
		end(t, taken)
	}
	for _, part := range []func(Cell) string{
		func(c Cell) string { return c.CPU }, func(c Cell) string { return c.Pids }, func(c Cell) string { return c.Memory },
	} {
		spare := setAside(t, tree, made(t, tree, "task@1", spareLimits).Brief())
		if err := os.Remove(part(spare)); err != nil {
			t.Fatal(err)
		}
		if _, err := taken.TakeOver(spare); !errors.Is(err, os.ErrNotExist) || taken.Exists() {
			t.Errorf("%s is gone: %v; the task's cell exists: %v", part(spare), err, taken.Exists())
		}
		end(t, spare)
	}
	c := made(t, tree, "task@2", spareLimits).Brief()
	if err := os.Remove(c.Pids); err != nil {
		t.Fatal(err)
	}
	name := tree.Root.Child(SpareName(2)).Brief()
	if _, err := c.SetAside(name); !errors.Is(err, os.ErrNotExist) || name.Exists() || !c.Exists() {
		t.Errorf("%v; as a spare it exists: %v, where it was: %v", err, name.Exists(), c.Exists())
	}
	end(t, c)
}

// Cells can be spared only where the kernel can rename groups and tells that nothing lives in them, and where no
// devices are denied.
func TestWhichCellsCanBeSpared(t *testing.T) {
	all := Cell{Grade: Hybrid, Unified: "u", CPU: "c", Memory: "m", Pids: "p"}
	for _, test := range []struct {
		name string
		cell func(Cell) Cell
		can  bool
	}{
		{"all that it takes", func(c Cell) Cell { return c }, true},
		{"version 2", func(c Cell) Cell { c.Grade = Cgroup2; return c }, false},
		{"version 1 alone", func(c Cell) Cell { c.Grade, c.Unified = Cgroup1, ""; return c }, false},
		{"devices", func(c Cell) Cell { c.Devices = "d"; return c }, false},
		{"weights of disks", func(c Cell) Cell { c.IO = "i"; return c }, false},
		{"no memory", func(c Cell) Cell { c.Memory = ""; return c }, false},
		{"none", func(Cell) Cell { return Cell{} }, false},
	} {
		if got := test.cell(all).CanSpare(); got != test.can {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
