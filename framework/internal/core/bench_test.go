package core

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// BenchmarkLives measures the life of a task in a scheduler's core, by how many others run: offered, launched, two
// statuses with their callbacks.
func BenchmarkLives(b *testing.B) {
	for _, tasks := range []int{10, 2000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) { benchLives(b, tasks) })
	}
}

func benchLives(b *testing.B, tasks int) {
	w := &bench{core: newWorld(b).core}
	w.step(Started{Instance: "i1"})
	w.step(Woken{})
	w.step(Dialed{})
	w.hear(protocol.Subscribed{Cluster: "c1", Framework: "framework-1", Session: 1, Master: "master-1"})
	for i := range tasks {
		w.run(fmt.Sprint("other-", i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		task := fmt.Sprint("t", i)
		w.run(task)
		w.tell(task, api.TaskFinished, 2)
	}
	if len(w.core.tasks.open) != tasks {
		b.Fatalf("%d tasks run", len(w.core.tasks.open))
	}
}

// bench is a core whose user answers at once.
type bench struct {
	core   *Core
	offers int
}

func (w *bench) step(what Happening) {
	w.core.Step(Event{At: transcript.Epoch, What: what})
}

func (w *bench) hear(event protocol.SchedulerEvent) {
	w.step(Heard{Term: api.Term{Number: 1}, Events: []protocol.SchedulerEvent{event}})
}

// run lets a task be offered room, launched, and run.
func (w *bench) run(task string) {
	w.offers++
	offer := api.Offer{ID: api.OfferID(fmt.Sprint("offer-", w.offers)), Agent: "a1", Role: "*", Resources: api.Scalars(1, 64)}
	w.hear(protocol.Offers{Offers: []api.Offer{offer}})
	w.step(Called{Answers: []api.Answer{api.Launch(offer, api.Task{ID: api.TaskID(task), Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "true"}})}})
	w.tell(task, api.TaskRunning, 1)
}

func (w *bench) tell(task string, state api.TaskState, number uint64) {
	w.hear(protocol.Update{Status: api.Status{Framework: "framework-1", Task: api.TaskID(task), Agent: "a1", State: state, Number: number}})
	w.step(Called{})
}
