package core

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// An older version of the agent wrote the end of an executor in the other order: first that it is forgotten, then what
// became of its tasks. If such a log is torn in between, no task is started that may have run, whether or not a
// framework was told of it (R9).
func TestLogOfAnOlderOrder(t *testing.T) {
	run := Run{api.ExecutorRef{Framework: "f1", Executor: "command"}, 1}
	launched := func(id api.TaskID) Record {
		return TaskLaunched{Task: api.Task{ID: id, Command: &api.Command{Shell: "true"}}, Framework: "f1", Role: "r", Number: 1}
	}
	running := api.Status{Framework: "f1", Task: "heard", Agent: "agent-1", Executor: "command", Number: 1, State: api.TaskRunning}
	records := []Record{
		Identity{Nonce: "n", Cluster: "c1", Agent: "agent-1", BootID: "b1"},
		FrameworkKept{api.Framework{ID: "f1"}},
		launched("heard"), launched("silent"), launched("killed"),
		ExecutorStarting{Run: run, Builtin: true, Executor: api.Executor{ID: "command"}},
		ExecutorStarted{Run: run, Process: Process{10, 100}},
		TaskStatus{Status: running, ExecutorNumber: 1},
		TaskKilled{Task: api.TaskRef{Framework: "f1", Task: "killed"}, Reason: api.ReasonKilledByFramework},
		ExecutorForgotten{run},
		launched("later"), // later than all that: it had no executor yet
	}
	w := newWorld(t)
	w.quiet = true
	w.core, w.log = New(w.config, records), records
	for _, line := range []string{"started boot=b1", "open", "leader registered"} {
		w.line(line)
	}
	want := map[api.TaskID]api.TaskState{"heard": api.TaskFailed, "silent": api.TaskFailed, "killed": api.TaskKilled, "later": api.TaskStaging}
	for _, task := range w.core.state.tasksInOrder() {
		if got := task.latest.State; got != want[task.ref.Task] {
			t.Errorf("%s is %s, not %s", task.ref, got, want[task.ref.Task])
		}
	}
	if e := w.core.state.executors[run.Executor]; e == nil || len(e.tasks) != 1 {
		t.Errorf("the executor has %+v", e)
	}
	if len(want) != len(w.core.state.tasks) {
		t.Error(w.out.String())
	}
}
