package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// bench is a registered core with a fast disk and one executor that runs.
type bench struct {
	core    *Core
	at      time.Time
	written uint64
}

func newBench() *bench {
	b := &bench{at: transcript.Epoch, core: New(Config{Agent: api.Agent{Resources: api.Scalars(4, 4096)}, Sandboxes: "/s"}, nil)}
	b.step(Started{BootID: "b1", Nonce: "n1"})
	b.step(LeaderOpened{1})
	b.say(protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1", HeartbeatInterval: time.Hour, SessionTimeout: time.Hour})
	return b
}

// step takes one event, and confirms at once that what the core wrote is on disk.
func (b *bench) step(what Happening) {
	b.at = b.at.Add(time.Microsecond)
	for {
		wrote := false
		for _, effect := range b.core.Step(Event{b.at, what}) {
			if record, is := effect.(Checkpoint); is {
				b.written, wrote = record.Number, true
			}
		}
		if !wrote {
			return
		}
		what = Checkpointed{b.written}
	}
}

func (b *bench) say(event protocol.AgentEvent) {
	b.step(LeaderSaid{1, protocol.AgentEvents{Term: api.Term{Number: 1}, Session: 1, Events: []protocol.AgentEvent{event}}})
}

func (b *bench) launch(task api.TaskID, number int) {
	resources := api.Scalars(0.001, 1)
	b.say(protocol.LaunchTask{
		Task:      api.Task{ID: task, Resources: resources, Command: &api.Command{Shell: "true"}},
		Framework: api.Framework{ID: "f1", Name: "fw"}, Role: "default", Resources: resources, Number: uint64(number),
	})
}

// BenchmarkLives measures what one task costs its agent's core, while others run on the same executor: its launch, two
// statuses, and their acknowledgements.
func BenchmarkLives(b *testing.B) {
	for _, tasks := range []int{10, 2000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) { benchLives(b, tasks) })
	}
}

func benchLives(b *testing.B, tasks int) {
	w := newBench()
	w.launch("first", 1)
	run := Run{api.ExecutorRef{Framework: "f1", Executor: api.CommandExecutor}, 1}
	w.step(ExecutorForked{run, Process{10, 100}, tokenHash})
	w.step(ExecutorOpened{2, protocol.SubscribeExecutor{ExecutorRef: run.Executor, Token: "token"}})
	for i := range tasks {
		w.launch(api.TaskID(fmt.Sprint("other-", i)), i+2)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		task := api.TaskID(fmt.Sprint("t", i))
		w.launch(task, tasks+i+2)
		for n, state := range []api.TaskState{api.TaskRunning, api.TaskFinished} {
			w.step(ExecutorCalled{2, []protocol.ExecutorCall{protocol.ExecutorStatus{Task: task, Number: uint64(n + 1), State: state}}})
			w.say(protocol.AcknowledgeStatus{TaskRef: api.TaskRef{Framework: "f1", Task: task}, Number: uint64(n + 1)})
		}
	}
}

// BenchmarkSessions measures what a new session costs an agent with many tasks: its report and all their statuses.
func BenchmarkSessions(b *testing.B) {
	w := newBench()
	for i := range 2000 {
		w.launch(api.TaskID(fmt.Sprint("t", i)), i+1)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.step(LeaderOpened{1})
		w.say(protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1"})
	}
}
