package sim

import (
	"strings"
	"testing"
	"time"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
)

// tale is a world in which the test decides what happens, and nothing goes wrong by chance.
type tale struct {
	*World
	t *testing.T
}

// tell begins a story that has only a leader.
func tell(t *testing.T) *tale {
	x := &tale{World: newWorld(1), t: t}
	x.kind = true
	x.story = &strings.Builder{}
	x.quorum.config.GoneAfter = -1
	x.truth.long = true
	t.Cleanup(func() {
		if x.broken != nil {
			t.Error(x.broken)
		}
		if t.Failed() {
			lines := strings.Split(x.story.String(), "\n")
			t.Log(strings.Join(lines[max(0, len(lines)-80):], "\n"))
		}
	})
	x.quorum.electLeader()
	return x
}

// machine adds a node with an agent that is registered.
func (x *tale) machine(name string) *machine {
	x.t.Helper()
	m := x.addMachine(name, api.Scalars(4, 4096))
	m.startAgent()
	x.await("the agent on "+name+" to be back", func() bool { return x.truth.machineSettled(x.findLeader(), m) == "" })
	return m
}

// framework adds a scheduler that wants to run this many tasks.
func (x *tale) framework(name string, tasks int) *scheduler {
	x.t.Helper()
	s := x.addScheduler(name, newWork(x.World, name, tasks))
	s.startProcess()
	x.await(name+" to be subscribed", func() bool { return s.phase == active })
	return s
}

// await lets time pass until holds returns true.
func (x *tale) await(what string, holds func() bool) {
	x.t.Helper()
	if !x.passUntil(x.now.Add(10*time.Minute), holds) {
		x.t.Fatalf("waited for %s in vain: %v", what, x.broken)
	}
}

// settles fails unless everything has come to rest within this time.
func (x *tale) settles(within time.Duration) {
	x.t.Helper()
	var why string
	if !x.passUntil(x.now.Add(within), func() bool { why = x.truth.findUnsettled(); return why == "" }) {
		x.t.Fatalf("after %v: %s %v", within, why, x.broken)
	}
}

// running returns how many tasks of a framework really run.
func (x *tale) running(s *scheduler) int {
	n := 0
	for _, label := range x.truth.order {
		if l := x.truth.launches[label]; l.scheduler == s && l.alive != nil && l.alive.alive {
			n++
		}
	}
	return n
}

func (x *tale) awaitRunning(s *scheduler, n int) {
	x.t.Helper()
	x.await("the tasks to run", func() bool { return x.running(s) == n && x.truth.findUnsettled() == "" })
}

// agentOf returns the ID of the agent on a machine.
func (m *machine) agentID() api.AgentID { return m.daemon.core.Identity().Agent }

// TestGoneWhileAway: an agent is marked gone while it is cut off. When it is back it kills everything that runs there,
// and registers as a new agent (R16).
func TestGoneWhileAway(t *testing.T) {
	for _, how := range []core.MarkAgent{{Set: api.MarkGone, Force: true}, {Remove: true, Force: true}} {
		x := tell(t)
		m := x.machine("h1")
		f := x.framework("f1", 3)
		x.awaitRunning(f, 3)
		before := m.agentID()
		m.cutOff()
		m.markAgent(how)
		x.passTime(20 * time.Second)
		m.joinAgain()
		x.settles(30 * time.Second)
		if m.agentID() == before {
			t.Errorf("the agent is still %s", before)
		}
		x.awaitRunning(f, 3)
	}
}

// TestRebootAtOnce: a machine crashes, and is up again before its leader has noticed. Its agent comes back as its own
// successor, and does not give up (R7).
func TestRebootAtOnce(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	f := x.framework("f1", 3)
	x.awaitRunning(f, 3)
	before := m.agentID()
	m.cutOff() // the old stream still looks alive
	m.rebootMachine()
	m.joinAgain()
	m.startAgent()
	x.settles(time.Minute)
	if m.agentID() != before {
		t.Errorf("the agent was %s and is %s", before, m.agentID())
	}
	x.awaitRunning(f, 3)
}

// TestCopiedFolder: an agent's folder is copied to another machine. While the first agent answers, the copy is refused,
// gives up, and disturbs nobody (R7).
func TestCopiedFolder(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	f := x.framework("f1", 3)
	x.awaitRunning(f, 3)
	m.copyFolder()
	twin := x.machines[len(x.machines)-1]
	x.await("the copy to give up", func() bool { return twin.daemon == nil })
	x.settles(10 * time.Second)
	if x.running(f) != 3 || len(x.truth.order) != 3 {
		t.Errorf("%d tasks run after %d launches; 3 ran before", x.running(f), len(x.truth.order))
	}
}

// TestRestoredSnapshot: agents and frameworks come after a snapshot was taken, so the snapshot does not know them. When
// it is restored, nobody else gets their IDs, and their tasks continue (R37).
func TestRestoredSnapshot(t *testing.T) {
	x := tell(t)
	x.machine("h1")
	x.quorum.saveSnapshot()
	late := x.machine("h2")
	f := x.framework("f1", 25)
	x.awaitRunning(f, 25)
	late.cutOff()
	x.quorum.restoreSnapshot()
	stranger := x.machine("h3")
	if stranger.agentID() == late.agentID() {
		t.Errorf("%s has the ID %s of the agent on %s", stranger.name, stranger.agentID(), late.name)
	}
	x.passTime(5 * time.Second)
	late.joinAgain()
	x.settles(2 * time.Minute)
	if x.running(f) != 25 || len(x.truth.order) != 25 {
		t.Errorf("%d tasks run after %d launches; 25 ran before", x.running(f), len(x.truth.order))
	}
}

// TestTornEnd: an executor has ended, and its agent is killed while it writes what this means for the tasks, at any of
// these records. No task starts a second time (R9, R35).
func TestTornEnd(t *testing.T) {
	for torn := 0; torn < 8; torn++ {
		x := tell(t)
		m := x.machine("h1")
		f := x.framework("f1", 5)
		x.awaitRunning(f, 5)
		f.work.resting = true
		m.listExecutors()[0].endProcess("kill -9")
		x.await("its end to be written", func() bool {
			return m.daemon.isWriting(func(r agentcore.Record) bool { _, is := r.(agentcore.TaskStatus); return is })
		})
		m.killAfter(min(torn, m.daemon.countUnwritten()))
		m.startAgent()
		x.settles(2 * time.Minute)
	}
}

// TestEndOwedAsAgentGoes: a task has ended, and its scheduler is just coming back. In this moment the task's agent is
// marked gone. The scheduler is told the task's end even so.
func TestEndOwedAsAgentGoes(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	x.machine("h2")
	f := x.framework("f1", 25)
	x.awaitRunning(f, 25)
	f.work.resting = true
	f.cutOff() // so that it does not hear of the ends
	for _, p := range m.listExecutors() {
		p.finishAll()
	}
	x.passTime(10 * time.Second)
	x.quorum.stopCommits()
	f.joinAgain()
	x.passTime(time.Second)
	m.markAgent(core.MarkAgent{Set: api.MarkGone, Force: true})
	x.quorum.resumeCommits() // both changes in one entry of the log
	x.settles(time.Minute)
	if f.phase != active {
		t.Fatal("the scheduler is not back")
	}
}

// TestRefusedAndTriedAgain: an agent refuses a launch, and the launch is tried again under the same ID on the same
// agent. Copies of the refusal may still be on their way. They must not count for the second launch (R9).
func TestRefusedAndTriedAgain(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	x.await("the agent to be there", func() bool { return m.daemon.registered })
	m.daemon.full = "f1-1"
	f := x.framework("f1", 1)
	x.await("a refusal", func() bool { return len(f.work.again) == 1 })
	id := f.work.again[0]
	m.daemon.full = ""
	m.daemon.line.stream.delay = 3 * time.Second // the second launch and every acknowledgement are late
	x.await("the second try", func() bool { return f.work.tasks[id] != nil || f.work.todo == 0 })
	x.settles(2 * time.Minute)
	if x.running(f) != 1 {
		t.Errorf("%d tasks run", x.running(f))
	}
}

// TestKilledWhileItsAcceptWaits: an accept that reserves waits for the quorum. Until then its
// tasks are neither unknown nor DROPPED, and a kill of one of them is not lost (R26, R12).
func TestKilledWhileItsAcceptWaits(t *testing.T) {
	x := tell(t)
	x.machine("h1")
	f := x.framework("f1", 0)
	x.await("an offer", func() bool { return len(f.offers) > 0 })
	offer := f.firstOffer()
	x.quorum.stopCommits()
	x.launchReserving(f, offer)
	f.stepCore(sdk.KillAsked{Task: "f1-1"})
	f.askStates("f1-1")
	x.passTime(3 * time.Second)
	if f.work.tasks["f1-1"] == nil {
		t.Error("its scheduler was told an end of it while its accept waits")
	}
	x.quorum.resumeCommits()
	x.await("the task to be killed", func() bool { return x.truth.order != nil && x.truth.launches["f1-1#1"].end.State == api.TaskKilled })
}

// launched notes a task that the test launches itself. Such a task is not tried again.
func (x *tale) launched(f *scheduler, task api.Task) {
	label := task.Labels[labelOfTry]
	x.truth.noteLaunch(f, task, label)
	f.work.tasks[task.ID] = &job{id: task.ID, label: label, framework: f.info.ID}
	f.work.resting = true
}

// launchReserving answers an offer with a reservation and a task.
func (x *tale) launchReserving(f *scheduler, offer api.Offer) {
	task := api.Task{ID: "f1-1", Resources: jobShape, Command: &api.Command{Shell: "work"}, Labels: map[string]string{labelOfTry: "f1-1#1"}}
	x.launched(f, task)
	f.acceptOffer(offer, []api.Operation{{Kind: api.OpReserve, Resources: api.Scalars(0.2, 0)}, {Kind: api.OpLaunch, Tasks: []api.Task{task}}}, api.Filter{})
}

// TestRefusedStarter: two launches name the same executor, and the agent refuses the first, which was to start it. The
// second launch starts the executor, and the leader knows that.
func TestRefusedStarter(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	f := x.framework("f1", 0)
	x.await("an offer", func() bool { return len(f.offers) > 0 })
	offer := f.firstOffer()
	executor := &api.Executor{ID: "own", Command: api.Command{Shell: "serve"}}
	var tasks []api.Task
	for _, id := range []api.TaskID{"f1-1", "f1-2"} {
		task := api.Task{ID: id, Resources: jobShape, Executor: executor, Labels: map[string]string{labelOfTry: string(id)}}
		x.launched(f, task)
		tasks = append(tasks, task)
	}
	m.daemon.full = "f1-1"
	f.acceptOffer(offer, []api.Operation{{Kind: api.OpLaunch, Tasks: tasks}}, api.Filter{})
	x.await("the second task to run", func() bool { return x.running(f) == 1 })
	for _, p := range m.listExecutors() {
		p.finishAll()
	}
	x.await("its end to be told", func() bool { return len(f.work.tasks) == 0 })
	x.passTime(time.Second)
	f.tearDown()
	f.work.torn = true
	x.await("nothing to be left", func() bool { return x.truth.findLeft() == "" })
}

// TestExecutorStartedAgain: an executor ends while a task is on its way to it. The task goes to a new run of the
// executor. The leader knows of that run, so the removal of the framework ends it (R21).
func TestExecutorStartedAgain(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	f := x.framework("f1", 0)
	executor := &api.Executor{ID: "own", Command: api.Command{Shell: "serve"}}
	launch := func(id api.TaskID) {
		x.await("an offer", func() bool { return len(f.offers) > 0 })
		offer := f.firstOffer()
		task := api.Task{ID: id, Resources: jobShape, Executor: executor, Labels: map[string]string{labelOfTry: string(id)}}
		x.launched(f, task)
		f.acceptOffer(offer, []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}, api.Filter{Refuse: -1})
	}
	launch("f1-1")
	x.await("the first task to run", func() bool { return x.running(f) == 1 })
	m.listExecutors()[0].line.stream.silence() // the executor hangs
	m.listExecutors()[0].line.stream.atServer()
	launch("f1-2")
	x.await("the second launch to be there", func() bool { return m.daemon.core.Counts().Tasks == 2 })
	m.listExecutors()[0].endProcess("kill -9")
	x.await("the second task to run", func() bool { return x.running(f) == 1 && x.truth.launches["f1-2"].starts == 1 })
	for _, p := range m.listExecutors() {
		p.finishAll()
	}
	x.await("its end to be told", func() bool { return len(f.work.tasks) == 0 })
	f.tearDown()
	f.work.torn = true
	x.await("nothing to be left", func() bool { return x.truth.findLeft() == "" })
}

// TestEndedBeforeTheSnapshot: after a snapshot was taken, a framework is removed and its tasks are killed. Its
// scheduler is cut off and is not told. When the snapshot is restored, the scheduler asks for tasks that have run. It
// is told how they ended, and not that they never started (R8).
func TestEndedBeforeTheSnapshot(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	f := x.framework("f1", 0)
	x.quorum.saveSnapshot()
	x.await("an offer", func() bool { return len(f.offers) > 0 })
	offer := f.firstOffer()
	f.isolated = true
	f.line.stream.down.mute = true // the accept arrives, and the answers do not
	task := api.Task{ID: "f1-1", Resources: jobShape, Command: &api.Command{Shell: "work"}, Labels: map[string]string{labelOfTry: "f1-1#1"}}
	x.launched(f, task)
	f.acceptOffer(offer, []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}, api.Filter{})
	x.await("the task to run", func() bool { return x.running(f) == 1 })
	f.removeByForce()
	x.await("the task to be killed", func() bool { return x.running(f) == 0 && m.daemon.core.Counts().Tasks == 0 })
	x.quorum.restoreSnapshot()
	f.joinAgain()
	x.await("its scheduler to hear of it", func() bool { return f.work.tasks["f1-1"] == nil })
	if end := x.truth.launches["f1-1#1"].end; end.State != api.TaskKilled {
		t.Errorf("it was told %s: %s", end.State, end.Message)
	}
}

// TestJumpingClock: a framework is removed while one of its agents is cut off, and the next leader's clock is weeks
// ahead. The removal is not forgotten because of that: when the agent is back, the framework's tasks are killed (R23).
func TestJumpingClock(t *testing.T) {
	x := tell(t)
	m := x.machine("h1")
	f := x.framework("f1", 3)
	x.awaitRunning(f, 3)
	m.cutOff()
	f.work.torn = true
	f.tearDown()
	x.passTime(5 * time.Second)
	for _, name := range []string{"m1", "m2", "m3"} {
		x.quorum.clockOf(name).ahead = 20 * 24 * time.Hour
	}
	x.quorum.electLeader()
	x.passTime(2 * time.Hour) // old entries are looked for every hour
	m.joinAgain()
	x.await("its tasks to end", func() bool { return x.running(f) == 0 })
	x.await("nothing to be left", func() bool { return x.truth.findLeft() == "" })
}

// TestFaultyExecutorHoldsNothing: a task that can't be started because of its executor ends ERROR, and the resources
// that it would have taken are free (promise 1).
func TestFaultyExecutorHoldsNothing(t *testing.T) {
	x := tell(t)
	x.machine("h1")
	f := x.framework("f1", 0)
	x.await("an offer", func() bool { return len(f.offers) > 0 })
	offer := f.firstOffer()
	task := f.work.faultyTask(api.Task{ID: "f1-1", Resources: jobShape, Labels: map[string]string{labelOfTry: "f1-1"}})
	x.launched(f, task)
	f.acceptOffer(offer, []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}, api.Filter{})
	x.await("its end", func() bool { return x.truth.launches["f1-1"].end.State == api.TaskError })
	x.passTime(time.Second)
	if why := x.truth.findLeft(); why != "" {
		t.Error(why)
	}
}

// TestManyQuestions: a scheduler asks for all its tasks two thousand times at once. The number of answers that wait for
// it is bounded, and others are served meanwhile (R4, promise 10).
func TestManyQuestions(t *testing.T) {
	x := tell(t)
	x.machine("h1")
	f, other := x.framework("f1", 10), x.framework("f2", 5)
	x.awaitRunning(f, 10)
	x.awaitRunning(other, 5)
	before := f.updates
	for range 2000 {
		f.stepCore(sdk.CallAsked{Call: protocol.Reconcile{}})
	}
	other.work.todo++
	x.passTime(10 * time.Second)
	if told := f.updates - before; told < 10 || told > 5000 {
		t.Errorf("2,000 questions about 10 tasks are answered by %d statuses", told)
	}
	if x.running(other) != 6 {
		t.Errorf("the other framework has %d tasks, and should have got one more", x.running(other))
	}
}

// TestNameTakenAfterRestore: a restored snapshot does not know a framework with standbys. One of the standbys, which
// never had an ID, takes the name. The instance that was active waits behind it.
func TestNameTakenAfterRestore(t *testing.T) {
	x := tell(t)
	x.machine("h1")
	x.quorum.saveSnapshot()
	work := newWork(x.World, "f1", 3)
	first, second := x.addScheduler("f1", work), x.addScheduler("f1", work)
	second.name = "f1b"
	first.info.Standby, second.info.Standby = true, true
	first.startProcess()
	x.awaitRunning(first, 3)
	first.cutOff()
	x.quorum.restoreSnapshot()
	second.startProcess()
	x.await("the second one to be active", func() bool { return second.phase == active })
	first.joinAgain()
	x.await("the first one to wait", func() bool { return first.phase == standing })
	x.passTime(time.Minute)
	if second.phase != active || first.phase != standing {
		t.Error("they do not agree on who is active")
	}
}
