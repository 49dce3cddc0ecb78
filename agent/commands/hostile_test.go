package commands

import (
	"runtime"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// A task that ignores all signals and starts sessions for as long as it lives is gone with all of them when its end is
// told, even without control groups. Its neighbour is not touched. (R11)
func TestWhatForksWhileItIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has subreapers")
	}
	const deaf = `trap "" TERM HUP INT; `
	for name, line := range map[string]string{
		"sessions": deaf + `while :; do setsid sh -c '` + deaf + `echo $$ >>pids; sleep 1000' & sleep 0.01; done`,
		"daemons":  deaf + `while :; do (setsid sh -c '(` + deaf + `sh -c "echo \$\$ >>pids; exec sleep 1000" &)' &); sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t)
			a.shell("neighbour", `echo $$ >pid; mv pid pids; sleep 1000 & wait`)
			a.want("neighbour", api.TaskRunning)
			a.await("neighbour", "pids")
			a.shell("t1", line)
			a.want("t1", api.TaskRunning)
			a.await("t1", "pids")
			a.send(protocol.ExecutorKill{Task: "t1", Grace: 200 * time.Millisecond})
			if got := a.want("t1", api.TaskKilled); *got.ExitCode != 137 {
				t.Errorf("it ended with %+v", got)
			}
			a.noneLeft("t1")
			if left := a.living("neighbour"); left != 1 {
				t.Errorf("%d processes of the neighbour live, want 1", left)
			}
			a.send(protocol.ExecutorKill{Task: "neighbour", Grace: time.Minute})
			a.want("neighbour", api.TaskKilled)
		})
	}
}

// A task that fails its check, ignores signals and has daemons is ended as a whole.
func TestWhatIsIllAndDeaf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has subreapers")
	}
	a := start(t)
	task := api.Task{
		ID: "t1", KillGrace: 50 * time.Millisecond,
		Command: &api.Command{Shell: `trap "" TERM; (setsid sh -c 'trap "" TERM; echo $$ >>pids; sleep 1000' &); echo $$ >>pids; touch up; while :; do sleep 0.01; done`},
		Checks:  []api.Check{{Command: &api.Command{Shell: "! test -e up"}, Interval: api.CheckIntervalMin, Grace: time.Nanosecond, Failures: 1}},
	}
	a.launch(task)
	a.want("t1", api.TaskRunning)
	got := a.next("t1")
	for got.State == api.TaskRunning { // a check may have passed before
		got = a.next("t1")
	}
	if got.State != api.TaskKilling || got.Reason != api.ReasonHealthCheckFailed {
		t.Fatalf("it is to end with %+v", got)
	}
	if got := a.want("t1", api.TaskFailed); got.Reason != api.ReasonHealthCheckFailed || *got.ExitCode != 137 {
		t.Errorf("it ended with %+v", got)
	}
	a.noneLeft("t1")
}
