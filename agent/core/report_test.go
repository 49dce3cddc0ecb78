package core

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// loaded returns a registered core with many large tasks.
func loaded(t *testing.T, tasks int) *world {
	w := newWorld(t)
	for _, line := range []string{"started boot=b1", "open", "leader registered"} {
		w.line(line)
	}
	long := strings.Repeat("x", api.IDBytesMax-8)
	for i := range tasks {
		task := api.Task{
			ID: api.TaskID(fmt.Sprintf("%s-%06d", long, i)), Resources: api.Scalars(0.001, 1), Data: make([]byte, (i%16)*15<<10),
			Command: &api.Command{Argv: []string{"a", "b"}, Env: map[string]string{"A": "B"}}, Labels: map[string]string{"l": "v"},
		}
		launch := protocol.LaunchTask{Task: task, Framework: api.Framework{ID: "f1", Name: "n"}, Role: "r", Resources: task.Resources, Number: uint64(i), Receipt: receiptOf(i)}
		launch.ExecutorReceipt = "executor's " + launch.Receipt
		w.core.Step(Event{w.now, LeaderSaid{w.conn, protocol.AgentEvents{Term: w.term, Session: w.sess, Events: []protocol.AgentEvent{launch}}}})
	}
	w.core.Step(Event{w.now, Checkpointed{w.core.disk.written}})
	return w
}

// receiptOf returns what a leader sent along with a launch (R40).
func receiptOf(launch int) string { return fmt.Sprint("receipt of ", launch) }

// However much there is to report, no page is larger than a message (R2, R4). Nothing is left out or told twice.
func TestPagesFitMessages(t *testing.T) {
	const tasks = 300
	w := loaded(t, tasks)
	w.core.Step(Event{w.now, LeaderOpened{w.conn + 1}})
	opening := protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1"}
	effects := w.core.Step(Event{w.now, LeaderSaid{w.conn + 1, protocol.AgentEvents{Term: w.term, Session: 7, Events: []protocol.AgentEvent{opening}}}})
	seen := map[api.TaskID]bool{}
	pages, last, executors := 0, 0, 0
	for _, effect := range effects {
		call, is := effect.(ToLeader)
		page, report := call.Call.(protocol.AgentReport)
		if !is || !report {
			continue
		}
		if size := proto.Size(wire.AgentCallsToProto([]protocol.AgentCall{page})); size > api.MessageBytesMax {
			t.Errorf("page %d has %d bytes", pages, size)
		}
		for _, reported := range page.Tasks {
			if seen[reported.Task.ID] {
				t.Errorf("%s is reported twice", reported.Task.ID)
			}
			seen[reported.Task.ID] = true
			if reported.Receipt != receiptOf(int(reported.Status.Launch.Number)) {
				t.Errorf("%s is reported with the receipt %q", reported.Task.ID, reported.Receipt)
			}
		}
		for _, reported := range page.Executors {
			executors++
			if reported.LaunchTerm != w.term || reported.Receipt != "executor's "+receiptOf(int(reported.LaunchNumber)) {
				t.Errorf("an executor of launch %v %d is reported with the receipt %q", reported.LaunchTerm, reported.LaunchNumber, reported.Receipt)
			}
		}
		pages++
		if page.Last {
			last = pages
		}
	}
	if len(seen) != tasks || pages < 10 || last != pages || executors != 1 {
		t.Errorf("%d tasks and %d executors on %d pages, the last is %d", len(seen), executors, pages, last)
	}
}

// A heartbeat always fits into a message. If there are too many tasks, each of them is listed in its turn.
func TestUsageFitsMessages(t *testing.T) {
	w := loaded(t, 0)
	usage := protocol.UsageReport{Tasks: map[api.TaskRef]api.Usage{}, Executors: map[api.ExecutorRef]api.Usage{{Framework: "f1", Executor: "x"}: {}}}
	long := strings.Repeat("x", api.IDBytesMax-8)
	for i := range 4000 {
		ref := api.TaskRef{Framework: api.FrameworkID(long), Task: api.TaskID(fmt.Sprintf("%s-%06d", long, i))}
		usage.Tasks[ref] = api.Usage{At: w.now, CPU: api.MilliMax, CPUs: 1 << 60, Mem: api.MilliMax, Procs: 1 << 30}
	}
	w.core.Step(Event{w.now, Sampled{usage}})
	seen := map[api.TaskRef]bool{}
	for range 3 {
		told := w.core.reports.usageToTell()
		if size := proto.Size(wire.AgentCallsToProto([]protocol.AgentCall{protocol.AgentHeartbeat{Usage: told}})); size > api.MessageBytesMax {
			t.Fatalf("a heartbeat has %d bytes", size)
		}
		for ref := range told.Tasks {
			seen[ref] = true
		}
	}
	if len(seen) != len(usage.Tasks) {
		t.Errorf("three heartbeats told of %d of %d tasks", len(seen), len(usage.Tasks))
	}
}
