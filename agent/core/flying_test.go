package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// However large the statuses are that wait for acknowledgement, a new session begins with no more of them than fit
// the leader's queue; the others follow as those are acknowledged, and none is left behind (R4, R34).
func TestStatusesOfASessionAreBoundedInBytes(t *testing.T) {
	w := newWorld(t)
	w.out = &strings.Builder{}
	for _, line := range []string{"started boot=b1", "open", "leader registered"} {
		w.line(line)
	}
	const tasks = 4 * flyingBytesMax / api.StatusDataBytesMax
	for i := range tasks {
		task := api.Task{ID: api.TaskID(fmt.Sprintf("t%05d", i)), Resources: api.Scalars(0.001, 1), Command: &api.Command{Shell: "x"}}
		launch := protocol.LaunchTask{Task: task, Framework: api.Framework{ID: "f1"}, Role: "r", Resources: task.Resources, Number: uint64(i + 1)}
		w.core.Step(Event{w.now, LeaderSaid{w.conn, protocol.AgentEvents{Term: w.term, Session: w.sess, Events: []protocol.AgentEvent{launch}}}})
	}
	w.core.Step(Event{w.now, Checkpointed{w.core.written}})
	data := make([]byte, api.StatusDataBytesMax)
	for _, one := range w.core.state.tasksInOrder() {
		status := w.core.status(one, api.TaskFailed, api.ReasonNone, "")
		status.Data = data
		w.core.storeStatus(one, TaskStatus{Status: status})
	}
	w.core.Step(Event{w.now, Checkpointed{w.core.written}})

	w.conn++
	w.core.Step(Event{w.now, LeaderOpened{w.conn}})
	opening := protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1"}
	settled := map[api.TaskID]bool{}
	for events := []protocol.AgentEvent{opening}; len(events) > 0; {
		effects := w.core.Step(Event{w.now, LeaderSaid{w.conn, protocol.AgentEvents{Term: w.term, Session: 7, Events: events}}})
		effects = append(effects, w.core.Step(Event{w.now, Checkpointed{w.core.written}})...)
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
