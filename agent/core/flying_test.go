package core

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// However large the statuses are that wait for acknowledgement, a new session sends at first no more of them than fit
// the leader's queue. The others follow as those are acknowledged, and none is left out (R4, R34).
func TestStatusesOfASessionAreBoundedInBytes(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"started boot=b1", "open", "leader registered"} {
		w.line(line)
	}
	const tasks = 4 * flyingBytesMax / api.StatusDataBytesMax
	for i := range tasks {
		task := api.Task{
			ID: api.TaskID(fmt.Sprintf("t%05d", i)), Resources: api.Scalars(0.001, 1), Command: &api.Command{Shell: "x"},
		}
		launch := protocol.LaunchTask{
			Task: task, Framework: api.Framework{ID: "f1"}, Role: "r", Resources: task.Resources, Number: uint64(i + 1),
		}
		batch := protocol.AgentEvents{Term: w.term, Session: w.sess, Events: []protocol.AgentEvent{launch}}
		w.core.Step(Event{w.now, LeaderSaid{w.conn, batch}})
	}
	w.core.Step(Event{w.now, Checkpointed{w.core.disk.written}})
	data := make([]byte, api.StatusDataBytesMax)
	for _, one := range w.core.state.tasksInOrder() {
		status := w.core.statuses.newStatus(one, api.TaskFailed, api.ReasonNone, "")
		status.Data = data
		w.core.statuses.storeStatus(one, TaskStatus{Status: status})
	}
	w.core.Step(Event{w.now, Checkpointed{w.core.disk.written}})

	w.conn++
	w.core.Step(Event{w.now, LeaderOpened{w.conn}})
	opening := protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1"}
	settled := map[api.TaskID]bool{}
	for events := []protocol.AgentEvent{opening}; len(events) > 0; {
		effects := w.core.Step(Event{w.now, LeaderSaid{w.conn, protocol.AgentEvents{Term: w.term, Session: 7, Events: events}}})
		effects = append(effects, w.core.Step(Event{w.now, Checkpointed{w.core.disk.written}})...)
		events = nil
		bytes := 0
		for _, effect := range effects {
			call, _ := effect.(ToLeader)
			if update, is := call.Call.(protocol.StatusUpdate); is {
				bytes += protocol.StatusBytes(update.Status)
				settled[update.Status.Task] = true
				events = append(events, protocol.AcknowledgeStatus{TaskRef: update.Status.Ref(), Number: update.Status.Number})
			}
		}
		if most := flyingBytesMax + 2*api.StatusDataBytesMax; bytes > most {
			t.Fatalf("%d bytes of statuses were sent at once; at most %d may be", bytes, most)
		}
	}
	if len(settled) != tasks {
		t.Errorf("%d of %d tasks were told of", len(settled), tasks)
	}
}

// handedOver returns an agent whose executor has a task, f1/t1.
func handedOver(t *testing.T) (*world, *task) {
	t.Helper()
	w := newWorld(t)
	lines := []string{
		"started boot=b1", "open", "leader registered", "leader launch f1/t1", "forked f1/command pid=9", "subscribe f1/command conn=1",
	}
	for _, line := range lines {
		w.line(line)
	}
	task := w.core.state.tasks[api.TaskRef{Framework: "f1", Task: "t1"}]
	if task == nil || !task.handed {
		t.Fatal("the task did not reach its executor:\n" + w.out.String())
	}
	return w, task
}

// An executor that reports progress without end makes its agent keep, send and log only a bounded part of it. The
// newest report is the one that counts in the end (R34).
func TestProgressOfATaskIsBounded(t *testing.T) {
	w, task := handedOver(t)
	sent, logged := 0, 0
	say := func(number int, state api.TaskState) {
		status := protocol.ExecutorStatus{Task: "t1", Number: uint64(number), State: state, Data: make([]byte, api.StatusDataBytesMax), Progress: true}
		effects := w.core.Step(Event{w.now, ExecutorCalled{1, []protocol.ExecutorCall{status}}})
		for _, effect := range append(effects, w.core.Step(Event{w.now, Checkpointed{w.core.disk.written}})...) {
			if call, is := effect.(ToLeader); is {
				if _, is := call.Call.(protocol.StatusUpdate); is {
					sent++
				}
			}
			if _, is := effect.(Log); is {
				logged++
			}
		}
	}
	const many = 1000
	for number := range many {
		say(number+1, api.TaskRunning)
	}
	bytes := 0
	for _, status := range task.unacked {
		bytes += protocol.StatusBytes(status)
	}
	if most := unackedBytesMax + 2*api.StatusDataBytesMax; bytes > most {
		t.Errorf("%d bytes of statuses are kept, at most %d may be", bytes, most)
	}
	if sent == 0 || sent > len(task.unacked) {
		t.Errorf("%d statuses were sent, %d are kept", sent, len(task.unacked))
	}
	if newest := task.unacked[len(task.unacked)-1].Number; newest != task.latest.Number {
		t.Errorf("the newest status that is kept is %d, not %d", newest, task.latest.Number)
	}
	for number := range many {
		say(many+number+1, api.TaskStaging)
	}
	if logged != 1 || w.core.Counts().Illegal != many {
		t.Errorf("%d illegal moves gave %d lines and were counted as %d", many, logged, w.core.Counts().Illegal)
	}
	acknowledge := protocol.AcknowledgeStatus{TaskRef: task.ref, Number: task.flight.sent}
	batch := protocol.AgentEvents{Term: w.term, Session: w.sess, Events: []protocol.AgentEvent{acknowledge}}
	effects := w.core.Step(Event{w.now, LeaderSaid{w.conn, batch}})
	heard := uint64(0)
	for _, effect := range effects {
		call, _ := effect.(ToLeader)
		if update, is := call.Call.(protocol.StatusUpdate); is {
			heard = update.Status.Number
		}
	}
	if heard != task.latest.Number {
		t.Errorf("after the acknowledgement status %d was sent, not the newest, %d", heard, task.latest.Number)
	}
}

// Each report of an executor that is not progress is kept. While too much waits for acknowledgement, the agent takes a
// report and does not answer, so the executor waits. If an executor does not wait, what is kept is bounded all the
// same. (Protocol rule R34.)
func TestReportsWaitForTheScheduler(t *testing.T) {
	w, task := handedOver(t)
	answered := uint64(0)
	step := func(h Happening) {
		effects := w.core.Step(Event{w.now, h})
		for _, effect := range append(effects, w.core.Step(Event{w.now, Checkpointed{w.core.disk.written}})...) {
			if call, is := effect.(ToExecutor); is {
				if answer, is := call.Event.(protocol.ExecutorAcknowledged); is {
					answered = answer.Number
				}
			}
		}
	}
	say := func(number uint64) {
		status := protocol.ExecutorStatus{Task: "t1", Number: number, State: api.TaskRunning, Data: make([]byte, api.StatusDataBytesMax)}
		step(ExecutorCalled{1, []protocol.ExecutorCall{status}})
	}
	number := uint64(0)
	for answered == number {
		number++
		say(number)
	}
	if len(task.unacked) != int(number) {
		t.Fatalf("%d of %d reports are kept", len(task.unacked), number)
	}
	say(number) // the executor has begun another session
	if answered == number {
		t.Errorf("the report that came again was answered while nothing has room")
	}
	acknowledge := protocol.AcknowledgeStatus{TaskRef: task.ref, Number: 1}
	step(LeaderSaid{w.conn, protocol.AgentEvents{Term: w.term, Session: w.sess, Events: []protocol.AgentEvent{acknowledge}}})
	if answered != number {
		t.Errorf("there is room again, and the executor is answered up to %d of %d", answered, number)
	}
	for range 1000 {
		number++
		say(number)
	}
	bytes := 0
	for _, status := range task.unacked {
		bytes += protocol.StatusBytes(status)
	}
	if most := 2*unackedBytesMax + 2*api.StatusDataBytesMax; bytes > most {
		t.Errorf("%d bytes of statuses of an executor that does not wait are kept, at most %d may be", bytes, most)
	}
}
