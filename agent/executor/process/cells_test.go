package process

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
)

// withCells returns a launcher with cells. It skips the test where there are no control groups.
func withCells(t *testing.T) *Launcher {
	cells, err := walls.OpenCells(t.TempDir(), walls.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if found := cells.Found(); found.Has("groups") {
		t.Skipf("no control groups here: %v", found.Lacks)
	}
	t.Cleanup(func() {
		if err := cells.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Launcher{Cells: cells}
}

// cellOf returns those control groups of a process that are within its agent's cell.
func cellOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for line := range strings.Lines(string(text)) {
		if _, cell, is := strings.Cut(line, "/tender-"); is {
			ours = append(ours, strings.TrimSpace(cell))
		}
	}
	return strings.Join(ours, " ")
}

// An executor is in its cell while it waits at its gate (R41), and all processes that it starts are found there. So are
// those that have left session and group and cleared their environment, and those that fork while they are killed.
func TestExecutorsEndWithTheirCells(t *testing.T) {
	l := withCells(t)
	pipe, line := fifo(t)
	p, sandbox := fork(t, l, api.Command{Shell: `env -i PATH=/usr/bin:/bin setsid sh -c '
		trap "" TERM HUP
		spread() { while :; do sleep 0.01 & wait; done; }
		spread & spread & spread & echo $$ > ` + pipe + `; wait' & exec sleep 1000`})
	if !strings.Contains(cellOf(t, p.ID().PID), "f1@x/own") {
		t.Errorf("at its gate the executor is in %q", cellOf(t, p.ID().PID))
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	daemon, err := strconv.Atoi(line())
	if err != nil {
		t.Fatal(err)
	}
	stat, err := proc.Read(daemon)
	if err != nil || stat.Session == p.ID().PID || !strings.Contains(cellOf(t, daemon), "f1@x/own") {
		t.Fatalf("%+v in %q, %v", stat, cellOf(t, daemon), err)
	}
	if err := syscall.Kill(p.ID().PID, syscall.SIGKILL); err != nil { // only the executor, as by an accident
		t.Fatal(err)
	}
	wait(t, p)
	owner := executor.Owner{Executor: api.ExecutorRef{Framework: "f1", Executor: "x"}, Leader: p.ID(), Sandbox: sandbox}
	if err := killAll(t, l, owner); err != nil {
		t.Fatal(err)
	}
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		if !q.Dead && q.Session == stat.Session {
			t.Errorf("left: %+v", q)
		}
	}
}

// An executor that never passed its gate leaves no cell.
func TestWhatDidNotStartLeavesNoCell(t *testing.T) {
	l := withCells(t)
	p, sandbox := fork(t, l, api.Command{Shell: "echo ran"})
	p.Abandon()
	wait(t, p)
	owner := executor.Owner{Executor: api.ExecutorRef{Framework: "f1", Executor: "x"}, Leader: p.ID(), Sandbox: sandbox}
	if err := killAll(t, l, owner); err != nil {
		t.Error(err)
	}
}
