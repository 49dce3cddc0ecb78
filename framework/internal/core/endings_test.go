package core

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestUnknownSwallowsNoEnd: the leader says that it does not know a task. Before the scheduler has been told that, the
// task's agent is back and tells the task's end. The end must be told too.
func TestUnknownSwallowsNoEnd(t *testing.T) {
	b := newTasks(0)
	for _, status := range []api.Status{
		{Task: "t", State: api.TaskUnknown},
		{Task: "t", Agent: "agent-1", Number: 2, State: api.TaskFinished},
	} {
		if _, verdict := b.judgeStatus(status); verdict != deliver {
			t.Fatalf("%s is not told: %v", status.State, verdict)
		}
	}
	task := b.open["t"]
	if status, settled := b.removeHandled(task, true); status.State != api.TaskUnknown || settled {
		t.Errorf("after %s nothing is awaited any more", status.State)
	}
	if status, settled := b.removeHandled(task, true); status.State != api.TaskFinished || !settled {
		t.Errorf("%s does not settle the task", status.State)
	}
	if _, verdict := b.judgeStatus(api.Status{Task: "t", Agent: "agent-1", Number: 2, State: api.TaskFinished}); verdict != acknowledge {
		t.Errorf("a second copy of the end: %v", verdict)
	}
	if b.held != 0 || len(b.open) != 0 {
		t.Errorf("%d statuses are held, %d tasks remembered", b.held, len(b.open))
	}
}

// TestDroppedIsTheEnd: an answer of the leader that comes when the scheduler has handled DROPPED tells no second end.
// The ID may be tried again.
func TestDroppedIsTheEnd(t *testing.T) {
	b := newTasks(0)
	b.noteLaunch("t", "agent-1", 1)
	task, _ := b.judgeStatus(api.Status{Task: "t", Agent: "agent-1", State: api.TaskDropped})
	b.removeHandled(task, true)
	if _, verdict := b.judgeStatus(api.Status{Task: "t", Agent: "agent-1", State: api.TaskGone}); verdict != ignore {
		t.Errorf("GONE after DROPPED: %v", verdict)
	}
	if b.isUsed("t") {
		t.Fatal("it can't be tried again")
	}
	b.noteLaunch("t", "agent-2", 2)
	if _, verdict := b.judgeStatus(api.Status{Task: "t", Agent: "agent-2", Number: 1, State: api.TaskRunning}); verdict != deliver {
		t.Errorf("the second try is not told: %v", verdict)
	}
}

// TestLateAnswerTellsNothingOfTheNextTry: a user asks for a task, is told that it was DROPPED, and tries it again under
// the same ID. The leader's answer to the question comes after that, and must not end the second try.
func TestLateAnswerTellsNothingOfTheNextTry(t *testing.T) {
	for _, second := range []api.AgentID{"agent-1", "agent-2"} {
		b := newTasks(0)
		b.noteLaunch("t", "agent-1", 1)
		task, _ := b.judgeStatus(api.Status{Task: "t", Agent: "agent-1", State: api.TaskDropped})
		b.removeHandled(task, true)
		b.noteLaunch("t", second, 2)
		late := api.Status{Task: "t", Agent: "agent-1", State: api.TaskDropped, Reason: api.ReasonReconciliation}
		if _, verdict := b.judgeStatus(late); verdict != ignore {
			t.Errorf("on %s the answer of before is told: %v", second, verdict)
		}
		b.listUnsettled() // now the leader is asked about this one
		late.Agent = second
		if _, verdict := b.judgeStatus(late); verdict != deliver {
			t.Errorf("on %s the answer to its own question is not told: %v", second, verdict)
		}
	}
}
