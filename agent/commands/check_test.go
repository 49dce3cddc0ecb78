package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// checked launches a task that runs a line of a shell, with a check that runs another line every 100 ms, with a
// timeout.
func (a *agent) checked(id api.TaskID, line string, readiness bool, timeout time.Duration, how string, change ...func(*api.Check)) {
	check := api.Check{
		Readiness: readiness, Command: &api.Command{Shell: how, Env: map[string]string{"MORE": "check"}},
		Interval: api.CheckIntervalMin, Timeout: timeout, Grace: time.Nanosecond, Failures: 2,
	}
	for _, one := range change {
		one(&check)
	}
	a.launch(api.Task{
		ID: id, KillGrace: time.Hour, Command: &api.Command{Shell: line, Env: map[string]string{"WHO": "task", "MORE": "task"}},
		Checks: []api.Check{check},
	})
}

// A command of a check runs in the task's sandbox and environment. The agent is told that the task is not ready, with
// the output of the check, and then that it is.
func TestReadinessByACommand(t *testing.T) {
	a := start(t)
	a.checked("t1", "sleep 1000", true, time.Minute,
		`echo $WHO $MORE $TENDER_TASK_ID $PWD >checked; if test -e ready; then exit 0; fi; echo not yet; echo more; exit 7`)
	a.want("t1", api.TaskRunning)
	if got := a.want("t1", api.TaskRunning); got.Healthy == nil || *got.Healthy || !strings.HasSuffix(got.Message, "(command): exited with 7: not yet") {
		t.Errorf("before it is ready: %+v", got)
	}
	if got, want := a.read("t1", "checked"), "task check t1 "+filepath.Join(a.folder, "t1"); got != want {
		t.Errorf("the check saw %q, want %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(a.folder, "t1", "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.want("t1", api.TaskRunning); got.Healthy == nil || !*got.Healthy {
		t.Errorf("when it is ready: %+v", got)
	}
	if got := a.read("t1", "stdout"); got != "" {
		t.Errorf("the check wrote %q to the task's output", got)
	}
	a.send(protocol.ExecutorKill{Task: "t1"})
	a.want("t1", api.TaskKilled)
}

// A task that fails its check is killed with its own grace, and is then FAILED.
func TestLivenessByACommand(t *testing.T) {
	a := start(t)
	a.checked("t1", `trap 'echo bye; exit 0' TERM; touch up; while :; do sleep 0.01; done`, false, time.Minute,
		`test -e up && if test -e stuck; then kill -9 $$; fi`)
	a.want("t1", api.TaskRunning)
	if got := a.want("t1", api.TaskRunning); got.Healthy == nil || !*got.Healthy {
		t.Fatalf("while it is well: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(a.folder, "t1", "stuck"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.want("t1", api.TaskKilling); got.Reason != api.ReasonHealthCheckFailed {
		t.Errorf("it is to end with %+v", got)
	}
	got := a.want("t1", api.TaskFailed)
	if want := "its check (command) failed 2 times in a row: ended by signal 9 (killed): exited with 0"; got.Reason != api.ReasonHealthCheckFailed || got.Message != want {
		t.Errorf("it ended with %+v, want %q", got, want)
	}
	if got := a.read("t1", "stdout"); got != "bye" {
		t.Errorf("within its grace it said %q", got)
	}
}

// What an observing check by a command finds is its exit code; if a signal ends it, it finds nothing. The task runs on. (R90.)
func TestObservingByACommand(t *testing.T) {
	a := start(t)
	a.checked("t1", "sleep 1000", false, time.Minute, `read code <code && if test $code = none; then kill -9 $$; fi; exit $code`, func(c *api.Check) {
		c.Observing = true
	})
	for _, told := range []struct{ code, data string }{
		{"", `{"kind":"command"}`},
		{"7", `{"kind":"command","known":true,"code":7,"changed":true}`},
		{"none", `{"kind":"command","changed":true}`},
		{"0", `{"kind":"command","known":true,"passed":true,"changed":true}`},
	} {
		if told.code != "" {
			file := filepath.Join(a.folder, "t1", "code")
			if err := errors.Join(os.WriteFile(file+"-new", []byte(told.code+"\n"), 0o644), os.Rename(file+"-new", file)); err != nil {
				t.Fatal(err)
			}
		}
		got := a.want("t1", api.TaskRunning)
		for strings.Contains(string(got.Data), `"code":2,`) { // the file was not there yet
			got = a.want("t1", api.TaskRunning)
		}
		if string(got.Data) != told.data || got.Healthy != nil {
			t.Errorf("with exit code %q it is told %s of %+v, want %s", told.code, got.Data, got, told.data)
		}
	}
	a.send(protocol.ExecutorKill{Task: "t1"})
	a.want("t1", api.TaskKilled)
}

// A check that hangs is killed at its timeout with its whole process group, and so is a check whose task ends. Nothing
// of either is left when the task's end is told. The output of a check that writes without end is read and dropped.
func TestHungChecksAreKilledWhole(t *testing.T) {
	for name, check := range map[string]string{
		"ignores signals": `trap '' TERM; echo $$ >>pids; (trap '' TERM; sh -c 'echo $$ >>pids; exec sleep 1000') & wait`,
		"writes for ever": `echo $$ >>pids; exec cat /dev/zero`,
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t)
			a.checked("late", "sleep 1000", false, 200*time.Millisecond, check)
			a.want("late", api.TaskRunning)
			a.want("late", api.TaskKilling)
			got := a.want("late", api.TaskFailed)
			if !strings.Contains(got.Message, "failed 2 times in a row: it took longer than its timeout") {
				t.Errorf("it ended with %+v", got)
			}
			a.noneLeft("late")

			a.checked("ends", "while ! test -s pids; do sleep 0.01; done", false, time.Hour, check)
			a.want("ends", api.TaskRunning)
			a.want("ends", api.TaskFinished)
			a.noneLeft("ends")
		})
	}
}

// living returns how many of the processes that the task's file "pids" names exist.
func (a *agent) living(id api.TaskID) (n int) {
	a.t.Helper()
	for text := range strings.FieldsSeq(a.read(id, "pids")) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			a.t.Fatal(err)
		}
		if syscall.Kill(pid, 0) == nil {
			n++
		}
	}
	return n
}

// noneLeft fails the test if one of these processes exists.
func (a *agent) noneLeft(id api.TaskID) {
	a.t.Helper()
	if n := a.living(id); n > 0 {
		a.t.Errorf("%d processes of %s are left", n, id)
	}
}

// Many tasks with checks begin and end at the same time. The statuses of each come in order, and no check is taken for
// that of another task.
func TestManyChecks(t *testing.T) {
	a := start(t)
	const n = 60
	for i := range n {
		a.checked(api.TaskID(fmt.Sprint("t", i)), `while ! test -e checked; do sleep 0.02; done; exit 3`, false, time.Minute, `touch checked`)
	}
	ended := map[api.TaskID]bool{}
	for len(ended) < n {
		status := <-a.statuses
		switch {
		case status.State == api.TaskRunning && !ended[status.Task]:
		case status.State == api.TaskFailed && status.Reason == api.ReasonNone && *status.ExitCode == 3 && !ended[status.Task]:
			ended[status.Task] = true
		default:
			t.Fatalf("%s is %v (%s)", status.Task, status.State, status.Message)
		}
	}
}
