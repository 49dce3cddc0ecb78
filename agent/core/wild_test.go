package core

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestKilledAtAnyMoment lets agents live through events that a seed chooses, in a world that follows its rules:
// launches and kills, executors that start, answer and die, a disk that lags. Each agent is killed at some time, with
// its log torn at every place after that, and the promises are checked on what follows. One of these lives goes on and
// is killed again.
func TestKilledAtAnyMoment(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 11))
			w := newWorld(t)
			w.quiet = false
			w.truth.boot = "b1"
			life := newAfterlife(w, 0)
			launches := 0
			for range 4 {
				life.wild = true
				life.begin()
				for range 5 + random.IntN(60) {
					life.chance(random, &launches)
				}
				life.world.t = t
				life.cutEverywhere()
				sure := len(life.log) - int(life.core.disk.written-life.core.disk.stored)
				if random.IntN(8) == 0 {
					life.truth.restarted(life.truth.boot+"'", nil)
				}
				life = newAfterlife(life.world, sure+random.IntN(len(life.log)-sure+1))
			}
		})
	}
}

// chance makes one thing happen that may happen next.
func (a *afterlife) chance(random *rand.Rand, launches *int) {
	framework := api.FrameworkID([]string{"f1", "f1", "f1", "f2"}[random.IntN(4)])
	switch n := random.IntN(100); {
	case n < 12:
		*launches++
		task := api.Task{ID: api.TaskID(fmt.Sprint("t", *launches)), Resources: api.Scalars(1, 32), Command: &api.Command{Shell: "true"}}
		if dropped := a.dropped(); len(dropped) > 0 && random.IntN(2) == 0 {
			again := dropped[random.IntN(len(dropped))]
			framework, task.ID = again.Framework, again.Task
		}
		if random.IntN(3) == 0 {
			task.Command = nil
			task.Executor = &api.Executor{ID: "x", Command: api.Command{Argv: []string{"x"}}}
		} else if random.IntN(4) == 0 {
			task.Command.URIs = []api.URI{{Source: "/x"}}
		}
		if random.IntN(4) == 0 {
			task.Resources = task.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 50_000}))
		}
		if random.IntN(4) == 0 {
			task.Resources = task.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: api.GPUs}, Scalar: api.Milli(1000 * (1 + random.IntN(2)))}))
		}
		if random.IntN(8) == 0 {
			task.MaxCompletionTime = 100 * time.Millisecond
		}
		a.tell(protocol.LaunchTask{
			Framework: api.Framework{ID: framework, Name: "fw"}, Role: "default", Task: task, Resources: task.Resources, Number: uint64(*launches),
		})
	case n < 15:
		a.tell(groupOf(framework, random, launches))
	case n < 18 && len(a.core.state.tasks) > 0:
		tasks := a.core.state.tasksInOrder()
		a.tell(protocol.KillTask{TaskRef: tasks[random.IntN(len(tasks))].ref, Reason: api.ReasonKilledByFramework})
	case n < 21:
		a.die(random)
	case n < 22 && random.IntN(4) == 0:
		a.tell(protocol.RemoveFramework{Framework: framework})
	case n < 24:
		a.auto = !a.auto
	case n < 26:
		a.now = a.now.Add(200 * time.Millisecond)
		a.step(Woken{})
	case n < 28 && len(a.core.state.tasks) > 0:
		tasks := a.core.state.tasksInOrder()
		a.step(Measured{Sandboxes: map[api.TaskRef]int64{tasks[random.IntN(len(tasks))].ref: int64(random.IntN(100)) << 20}})
	case n < 36:
		a.step(Checkpointed{a.core.disk.stored + uint64(random.IntN(int(a.core.disk.written-a.core.disk.stored)+1))})
	case len(a.queue) > 0:
		a.next(random.IntN(len(a.queue)))
	}
}

// dropped returns the tasks that have never run and whose IDs may be launched again.
func (a *afterlife) dropped() (refs []api.TaskRef) {
	for _, stub := range a.core.state.stubs {
		if stub.Status.State == api.TaskDropped {
			refs = append(refs, stub.TaskRef)
		}
	}
	return refs
}

// groupOf returns a group of two or three tasks.
func groupOf(framework api.FrameworkID, random *rand.Rand, launches *int) protocol.LaunchGroup {
	var group protocol.LaunchGroup
	for range 2 + random.IntN(2) {
		*launches++
		task := api.Task{ID: api.TaskID(fmt.Sprint("t", *launches)), Resources: api.Scalars(1, 32), Command: &api.Command{Shell: "true"}}
		if random.IntN(4) == 0 {
			task.Command.URIs = []api.URI{{Source: "/x"}}
		}
		group.Tasks = append(group.Tasks, protocol.LaunchTask{
			Framework: api.Framework{ID: framework, Name: "fw"}, Role: "default", Task: task, Resources: task.Resources, Number: uint64(*launches),
		})
	}
	return group
}

// next delivers the next event of one of those that have something to say. Each says its events in order.
func (a *afterlife) next(i int) {
	whose := speaker(a.queue[i])
	i = slices.IndexFunc(a.queue, func(what Happening) bool { return speaker(what) == whose })
	what := a.queue[i]
	a.queue = slices.Delete(a.queue, i, i+1)
	if called, is := what.(ExecutorCalled); is && !a.truth.alive(a.truth.conns[called.Conn]) {
		return // it died before it could say that
	}
	if opened, is := what.(ExecutorOpened); is && !a.truth.alive(a.opens[opened.Conn]) {
		return // the next run, which has another token in truth, is not to be taken for it
	}
	a.step(what)
}

func speaker(what Happening) string {
	switch w := what.(type) {
	case ExecutorOpened:
		return fmt.Sprint("executor ", w.Conn)
	case ExecutorCalled:
		return fmt.Sprint("executor ", w.Conn)
	case ExecutorClosed:
		return fmt.Sprint("executor ", w.Conn)
	case LeaderSaid:
		return "leader"
	case ExecutorForked:
		return "run " + showRun(w.Run)
	case ExecutorFailed:
		return "run " + showRun(w.Run)
	case ExecutorExited:
		return "run " + showRun(w.Run)
	case GroupsGone:
		return "run " + showRun(w.Run)
	default:
		return fmt.Sprintf("%T", what)
	}
}

// die kills one of the executors.
func (a *afterlife) die(random *rand.Rand) {
	var alive []Run
	for _, run := range slices.SortedFunc(maps.Keys(a.truth.runs), func(a, b Run) int { return int(a.Number) - int(b.Number) }) {
		if a.truth.alive(run) {
			alive = append(alive, run)
		}
	}
	if len(alive) == 0 {
		return
	}
	run := alive[random.IntN(len(alive))]
	a.truth.die(run)
	a.later(ExecutorExited{Run: run, Message: "killed"})
	for _, conn := range slices.Sorted(maps.Keys(a.truth.conns)) {
		if a.truth.conns[conn] == run {
			a.later(ExecutorClosed{conn})
		}
	}
}
