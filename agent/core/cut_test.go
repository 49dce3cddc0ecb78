package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// cutEverywhere kills the agent now, once for each place at which the log may be torn: after each record that may or
// may not have reached the disk. Each time the next agent lives until nothing happens any more.
func (w *world) cutEverywhere() {
	sure := len(w.log) - int(w.core.disk.written-w.core.disk.stored)
	for end := sure; end <= len(w.log); end++ {
		after := newAfterlife(w, end)
		after.live()
	}
}

// afterlife is the world after the agent was killed. Its living executors come back, every request is answered, the
// leader acknowledges everything, and every task ends.
type afterlife struct {
	*world
	before *truth // what was true when the agent was killed
	story  string // which cut this is
	queue  []Happening
	opens  map[Conn]Run                  // the run whose stream each is, from the moment in which it was begun
	ends   map[api.TaskRef]api.TaskState // the ends of tasks that the leader was told
	pid    int
	wild   bool // executors die and tasks take their time, instead of everything ending well
}

func newAfterlife(w *world, end int) *afterlife {
	a := &afterlife{before: w.truth, pid: 9000, opens: map[Conn]Run{}, ends: map[api.TaskRef]api.TaskState{}}
	a.story = fmt.Sprintf("killed with %d of %d records on disk", end, len(w.log))
	a.world = &world{
		t: w.t, config: w.config, now: w.now, auto: true, log: slices.Clone(w.log[:end]),
		conn: afterLeader, term: w.term, sess: w.sess + 1000, told: map[api.TaskRef][]api.Status{}, truth: w.truth.clone(), react: a.react,
	}
	for ref, told := range w.told {
		a.told[ref] = slices.Clone(told)
		a.hear(told[len(told)-1])
	}
	a.core = New(a.config, a.log)
	return a
}

// afterLeader is the stream to the leader in an afterlife.
const afterLeader Conn = 5000

// live plays the afterlife until nothing happens any more.
func (a *afterlife) live() {
	launched := slices.SortedFunc(maps.Keys(a.core.state.tasks), api.TaskRef.Compare)
	gone := a.begin()
	for n := 0; len(a.queue) > 0; n++ {
		if n > 10_000 {
			a.fail("it never comes to rest: %T", a.queue[0])
		}
		next := a.queue[0]
		a.queue = a.queue[1:]
		a.step(next)
	}
	if !gone {
		a.settled(launched)
	}
}

// begin starts the agent with what the torn log holds; its leader and its executors are there.
func (a *afterlife) begin() (gone bool) {
	started := Started{BootID: a.before.boot, Nonce: "nonce-9"}
	for _, run := range a.core.Runs() {
		if a.truth.alive(run.Run) {
			started.Alive = append(started.Alive, run.Run)
		}
	}
	a.step(started)
	gone = a.core.state.identity.Gone
	a.step(LeaderOpened{afterLeader})
	a.tell(protocol.AgentRegistered{Cluster: "c1", Agent: "agent-1"})
	for _, run := range started.Alive {
		a.comeBack(run)
	}
	return gone
}

func (a *afterlife) fail(format string, args ...any) {
	a.t.Fatalf("%s: %s\n%s", a.story, fmt.Sprintf(format, args...), a.out.String())
}

func (a *afterlife) later(what ...Happening) { a.queue = append(a.queue, what...) }

func (a *afterlife) tell(event protocol.AgentEvent) {
	term := a.term
	if term.Before(a.core.state.identity.Term) {
		term = a.core.state.identity.Term
	}
	a.later(LeaderSaid{afterLeader, protocol.AgentEvents{Term: term, Session: a.sess, Events: []protocol.AgentEvent{event}}})
}

// comeBack subscribes an executor that still lives, and lets its tasks end well.
func (a *afterlife) comeBack(run Run) {
	r := a.truth.runs[run]
	subscribe := protocol.SubscribeExecutor{ExecutorRef: run.Executor, Token: "token", Version: a.config.Version}
	var ends []protocol.ExecutorCall
	for _, id := range slices.Sorted(maps.Keys(r.tasks)) {
		task := r.tasks[id]
		subscribe.Unacknowledged = append(subscribe.Unacknowledged, task.unacked...)
		if !task.ended {
			subscribe.Tasks = append(subscribe.Tasks, id)
			ends = append(ends, protocol.ExecutorStatus{Task: id, Number: task.number + 1, State: api.TaskFinished})
		}
	}
	a.open(run, subscribe)
	for _, end := range ends {
		a.later(ExecutorCalled{a.conn, []protocol.ExecutorCall{end}})
	}
}

// open lets the executor of a run subscribe.
func (a *afterlife) open(run Run, subscribe protocol.SubscribeExecutor) {
	a.conn++
	a.opens[a.conn] = run
	a.later(ExecutorOpened{a.conn, subscribe})
}

// react answers an effect of the new agent as the world would, and checks the promises.
func (a *afterlife) react(effect Effect) {
	switch e := effect.(type) {
	case StartExecutor:
		a.pid++
		a.later(ExecutorForked{e.Run, Process{a.pid, 100}, tokenHash})
	case ReleaseExecutor:
		a.open(e.Run, protocol.SubscribeExecutor{ExecutorRef: e.Run.Executor, Token: "token", Version: a.config.Version})
	case AbandonExecutor:
		a.later(ExecutorFailed{Run: e.Run}, ExecutorExited{Run: e.Run})
	case KillGroups:
		a.killed(e)
	case HandOver:
		if run, before := a.before.handed[e.Task.TaskRef]; before {
			a.fail("%s is handed over, and was handed to %s before (promise 2)", e.Task, showRun(run))
		}
		states := []api.TaskState{api.TaskFinished}
		if a.wild {
			states = []api.TaskState{api.TaskRunning, api.TaskFinished}
		}
		for i, state := range states {
			a.later(ExecutorCalled{e.Conn, []protocol.ExecutorCall{protocol.ExecutorStatus{Task: e.Task.Task, Number: uint64(i + 1), State: state}}})
		}
	case ToExecutor:
		a.toExecutor(e)
	case CloseExecutor:
		a.later(ExecutorClosed{e.Conn})
	case PrepareTask:
		a.later(TaskPrepared{Task: e.Task})
	case Checkpoint:
		if launched, is := e.Record.(TaskLaunched); is { // it has an end of its own, not that of a launch that was DROPPED
			delete(a.ends, api.TaskRef{Framework: launched.Framework, Task: launched.Task.ID})
		}
	case DestroyVolume:
		a.later(VolumeDestroyed{Volume: e.Volume, Generation: e.Generation})
	case ToLeader:
		if update, is := e.Call.(protocol.StatusUpdate); is && update.Status.Number > 0 {
			a.hear(update.Status)
			a.tell(protocol.AcknowledgeStatus{TaskRef: update.Status.Ref(), Number: update.Status.Number})
		}
		if needs, is := e.Call.(protocol.NeedSecrets); is {
			a.tell(protocol.TaskSecrets{TaskRef: needs.TaskRef})
		}
	default: // nobody answers it
	}
}

func (a *afterlife) hear(status api.Status) {
	if status.State.Terminal() {
		a.ends[status.Ref()] = status.State
	}
}

// ordered says whether the torn log has an order to end for the run.
func (a *afterlife) ordered(run Run) bool {
	e := a.core.state.run(run)
	return e != nil && e.order != nil
}

// wanted says whether somebody asked for the end of everything that the framework has here.
func (a *afterlife) wanted(id api.FrameworkID) bool {
	return a.core.state.identity.Gone || a.core.frameworkRemoved(id)
}

func (a *afterlife) killed(e KillGroups) {
	if !a.wild && a.before.alive(e.Run) && !a.wanted(e.Run.Executor.Framework) && !a.ordered(e.Run) {
		a.fail("%s lives and is killed (promise 6)", showRun(e.Run))
	}
	if r := a.before.runs[e.Run]; r != nil && r.boot != a.before.boot {
		a.fail("%s is of another boot and its process numbers are killed", showRun(e.Run))
	}
	a.later(ExecutorExited{Run: e.Run}, GroupsGone{Run: e.Run})
	for conn, run := range a.truth.conns {
		if run == e.Run {
			a.later(ExecutorClosed{conn})
		}
	}
}

func (a *afterlife) toExecutor(e ToExecutor) {
	run := a.truth.conns[e.Conn]
	r := a.truth.runs[run]
	if r == nil {
		return
	}
	switch event := e.Event.(type) {
	case protocol.ExecutorKill:
		task := r.tasks[event.Task]
		if task == nil || task.ended {
			return
		}
		ref := api.TaskRef{Framework: run.Executor.Framework, Task: event.Task}
		if known := a.core.state.tasks[ref]; (known == nil || known.kill == nil) && !a.wanted(ref.Framework) {
			a.fail("%s runs and is killed, and nobody asked for it (promise 6)", ref)
		}
		kill := protocol.ExecutorStatus{Task: event.Task, Number: task.number + 1, State: api.TaskKilled}
		a.queue = append([]Happening{ExecutorCalled{e.Conn, []protocol.ExecutorCall{kill}}}, a.queue...)
	case protocol.ExecutorShutdown:
		a.later(ExecutorExited{Run: run}, ExecutorClosed{e.Conn})
	default: // the others mean nothing here
	}
}

// settled checks that nothing is left to do, and that every task of the torn log has ended once, as it should.
func (a *afterlife) settled(launched []api.TaskRef) {
	for _, t := range a.core.state.tasksInOrder() {
		a.fail("%s never ends; it is %s (promise 3)", t.ref, t.latest.State)
	}
	for id, f := range a.core.state.frameworks { // order: irrelevant because any one is enough
		if f.users == 0 {
			a.fail("the copy of %s is kept and nothing of it is here", id)
		}
	}
	for _, ref := range launched {
		end := a.ends[ref]
		if end == api.TaskUnspecified {
			a.fail("%s ended and nobody was told (promise 3)", ref)
		}
		want, settled := a.before.settled[ref]
		switch {
		case settled && end != want:
			a.fail("%s ended %s, as its executor was told, and the leader hears %s (promise 6)", ref, want, end)
		case settled || a.wanted(ref.Framework):
		case a.before.booted[ref] && end != api.TaskGone:
			a.fail("%s ran when the machine was booted again and is told %s", ref, end)
		}
	}
}
