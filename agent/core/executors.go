package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// executors is the room of the executors' runs: their start, once it is on disk; fork and gate (R10); their sessions;
// and the end of all that a run has left behind (R11). It decides what becomes of tasks when their executor has ended.
// It never decides that a task is to run or to be killed.
type executors struct {
	*base
	leader    *leader
	sandboxes *sandboxes
	statuses  *statuses
	conns     map[Conn]Run // sessions
	unheard   uint64       // messages that came while there was no session to pass them on to
}

// placeTask sees to it that the task has an executor: the one that is there, whatever it
// is doing, or a new run.
func (x *executors) placeTask(t *task) {
	e := x.state.executors[t.executor]
	if e == nil {
		e = x.startExecutor(t)
	}
	e.tasks[t.ref.Task] = t
	e.idleSince = x.now
}

// startExecutor begins a run: Starting on disk, then the fork (R10).
func (x *executors) startExecutor(t *task) *executor {
	record := ExecutorStarting{
		Run: Run{t.executor, x.state.runs + 1}, Role: t.launch.Role, Resources: t.launch.ExecutorResources, Builtin: true,
		Executor: api.Executor{ID: api.CommandExecutor},
	}
	if own := t.launch.Task.Executor; own != nil {
		record.Executor, record.Builtin = *own, false
	}
	number := x.writeRecord(record)
	e := x.state.executors[t.executor]
	x.log("executor is started", field("executor", t.executor.String()))
	x.follow(number, forkExecutor{e.run()})
	return e
}

// forkExecutor asks for the child of a run whose start is on disk.
func (x *executors) forkExecutor(run Run) {
	e := x.state.run(run)
	if e == nil || e.phase != phaseStarting {
		return
	}
	x.emit(StartExecutor{
		Run: run, Executor: e.starting.Executor, Builtin: e.starting.Builtin, Sandbox: x.executorFolder(e.ref()),
		Volumes: volumesIn(e.starting.Resources),
	})
}

// executorForked has the child wait at its gate until its process is on disk.
func (x *executors) executorForked(w ExecutorForked) {
	e := x.state.run(w.Run)
	if e == nil || e.phase != phaseStarting || e.order != nil {
		x.emit(AbandonExecutor{w.Run})
		return
	}
	e.moveTo(phaseGated)
	number := x.writeRecord(ExecutorStarted(w))
	x.follow(number, releaseExecutor{w.Run})
}

// releaseExecutor opens the gate behind which the child of a run waits.
func (x *executors) releaseExecutor(run Run) {
	e := x.state.run(run)
	if e == nil || e.phase != phaseGated {
		return
	}
	e.moveTo(phaseRegistering)
	x.emit(ReleaseExecutor{run})
	x.setDeadline(e, x.now.Add(x.config.ExecutorTimeout))
}

// executorFailed ends a run that never had a child.
func (x *executors) executorFailed(w ExecutorFailed) {
	e := x.state.run(w.Run)
	if e == nil || e.started.Process.PID != 0 {
		return
	}
	x.log("executor did not start", field("executor", e.ref().String()), field("why", w.Message))
	e.reason, e.why = cmp.Or(e.reason, w.Reason), cmp.Or(e.why, w.Message)
	x.forgetExecutor(e)
}

// acceptSession checks who it is, and makes this stream the executor's session; nil when it was refused.
func (x *executors) acceptSession(w ExecutorOpened) *executor {
	e := x.state.executors[w.Subscribe.ExecutorRef]
	if err := x.refuseStranger(e, w.Subscribe); err != nil {
		x.emit(CloseExecutor{w.Conn, err})
		x.log("executor refused", field("executor", w.Subscribe.ExecutorRef.String()), field("why", err.Error()))
		return nil
	}
	if err := protocol.Neighbours(x.config.Version, w.Subscribe.Version); err != nil && !x.admitForeign(e, w.Conn, err) {
		return nil
	}
	if e.conn != 0 {
		fenced := api.E("executor.subscribe", api.Fenced, e.ref().String(), sentence("a newer session of it was opened"))
		x.emit(CloseExecutor{e.conn, fenced})
		delete(x.conns, e.conn)
	}
	e.conn, e.subscribed, e.secrets = w.Conn, true, w.Subscribe.Secrets
	x.conns[w.Conn] = e.run()
	x.welcomeExecutor(e)
	if !e.ending() {
		e.moveTo(phaseRunning)
		if e.order == nil {
			x.setDeadline(e, time.Time{})
		}
	}
	return e
}

// admitForeign judges an executor whose version is too far from ours: a new one is ended before
// it has a task, one that was there before us is kept, as its tasks run (R24).
func (x *executors) admitForeign(e *executor, conn Conn, why error) (welcome bool) {
	x.log("executor is of another version", field("executor", e.ref().String()), field("why", why.Error()))
	if e.phase != phaseRegistering {
		return true
	}
	x.emit(CloseExecutor{conn, api.E("executor.subscribe", api.Unsupported, e.ref().String(), why)})
	x.killExecutor(e, api.ReasonLaunchFailed, why.Error())
	return false
}

// refuseStranger says why a subscription is refused, or nil.
func (x *executors) refuseStranger(e *executor, s protocol.SubscribeExecutor) *api.Error {
	refuse := func(kind api.Kind, why string) *api.Error {
		return api.E("executor.subscribe", kind, s.ExecutorRef.String(), sentence(why))
	}
	if e == nil || e.phase == phaseStarting || e.phase == phaseGated {
		return refuse(api.NotFound, "this agent did not start such an executor")
	}
	hash := sha256.Sum256([]byte(s.Token))
	if hex.EncodeToString(hash[:]) != e.started.TokenHash { // it compares hashes, so the time that it takes tells nothing of the token
		return refuse(api.Denied, "wrong token")
	}
	return nil
}

// welcomeExecutor is the first event of a session.
func (x *executors) welcomeExecutor(e *executor) {
	var framework api.Framework
	if f := x.state.frameworks[e.ref().Framework]; f != nil {
		framework = f.Framework
	}
	x.emit(ToExecutor{e.conn, protocol.ExecutorSubscribed{
		Agent: x.state.identity.Agent, Hostname: x.config.Agent.Hostname, Executor: e.starting.Executor, Framework: framework,
		RecoveryTimeout: x.config.RecoveryTimeout,
	}})
}

// onStream is the executor whose session a stream is, or nil.
func (x *executors) onStream(conn Conn) *executor {
	if run, is := x.conns[conn]; is {
		return x.state.run(run)
	}
	return nil
}

func (x *executors) executorCalled(w ExecutorCalled) {
	e := x.onStream(w.Conn)
	if e == nil {
		return
	}
	for _, call := range w.Calls {
		switch call := call.(type) {
		case protocol.ExecutorStatus:
			x.statuses.takeStatus(w.Conn, e.ref(), call)
		case protocol.ExecutorMessage:
			x.passMessageUp(e, call)
		case protocol.ExecutorHeartbeat, protocol.SubscribeExecutor: // nothing to do
		}
	}
}

// passMessageUp passes a message on to the leader. While there is none it is dropped:
// messages are delivered at most once, and none is kept.
func (x *executors) passMessageUp(e *executor, message protocol.ExecutorMessage) {
	if !x.leader.registered {
		x.unheard++
		return
	}
	x.leader.tell(protocol.MessageFromExecutor{ExecutorRef: e.ref(), Data: message.Data})
}

// passMessageDown passes a message on to an executor that has a session, as passMessageUp does.
func (x *executors) passMessageDown(message protocol.MessageToExecutor) {
	e := x.state.executors[message.ExecutorRef]
	if e == nil || !e.listening() {
		x.unheard++
		return
	}
	x.emit(ToExecutor{e.conn, protocol.ExecutorMessage{Data: message.Data}})
}

// executorClosed waits for an executor that has lost its stream; of one that is gone nothing follows.
func (x *executors) executorClosed(w ExecutorClosed) {
	e := x.onStream(w.Conn)
	if e == nil {
		return
	}
	delete(x.conns, w.Conn)
	e.conn = 0
	switch {
	case e.phase == phaseGone:
		x.forgetExecutor(e)
	case e.phase == phaseRunning && e.order == nil:
		x.setDeadline(e, x.now.Add(x.config.ExecutorTimeout))
	}
}

// executorExited begins the end of a run: what its tasks left running goes first (R11).
func (x *executors) executorExited(w ExecutorExited) {
	e := x.state.run(w.Run)
	if e == nil || e.ending() {
		return
	}
	x.log("executor ended", field("executor", e.ref().String()), field("why", w.Message))
	e.why = cmp.Or(e.why, w.Message)
	x.killProcesses(e)
}

// killExecutor ends a run at once.
func (x *executors) killExecutor(e *executor, reason api.Reason, why string) {
	if e.ending() {
		return
	}
	if e.order == nil {
		x.writeRecord(ExecutorStopping{Run: e.run(), Kill: true, Reason: reason, Why: why})
	}
	e.reason, e.why = cmp.Or(e.reason, reason), cmp.Or(e.why, why)
	x.log("executor is killed", field("executor", e.ref().String()), field("why", why))
	if e.phase == phaseStarting {
		x.emit(AbandonExecutor{e.run()}) // ExecutorFailed follows, or ExecutorForked came first
		return
	}
	x.killProcesses(e)
}

// killProcesses begins the end of all that belongs to a run.
func (x *executors) killProcesses(e *executor) {
	e.moveTo(phaseEnding)
	x.setDeadline(e, time.Time{})
	x.emit(KillGroups{Run: e.run(), Leader: e.started.Process, Sandbox: x.executorFolder(e.ref())})
}

// groupsGone forgets a run of which no process is left. What it still said is in its stream, so that is read to the end
// first.
func (x *executors) groupsGone(w GroupsGone) {
	e := x.state.run(w.Run)
	if e == nil || e.phase != phaseEnding {
		return
	}
	e.moveTo(phaseGone)
	if w.Reason != api.ReasonNone && e.order == nil && e.reason == api.ReasonNone { // it ended by itself
		e.reason, e.why = w.Reason, strings.TrimPrefix(e.why+"; "+w.Message, "; ")
	}
	if e.conn == 0 {
		x.forgetExecutor(e)
		return
	}
	x.setDeadline(e, x.now.Add(2*time.Second)) // another process may hold the stream open
}

// forgetExecutor settles the tasks of a run that has ended. Those that never reached
// it start on a new one, unless this program never came as far as to subscribe. What
// becomes of its tasks is written before the run is forgotten: whoever finds a task
// without a run may take it for one that never had any (R9, R35).
func (x *executors) forgetExecutor(e *executor) {
	if e.conn != 0 {
		x.emit(CloseExecutor{e.conn, nil})
		delete(x.conns, e.conn)
	}
	ref, tasks := e.ref(), e.tasksInOrder()
	if x.state.identity.Gone {
		tasks = nil
	}
	var again []*task
	for _, t := range tasks {
		if x.startsAgain(e, t) {
			again = append(again, t)
			continue
		}
		state, reason, why := x.judgeTask(e, t)
		x.statuses.setStatus(t, state, reason, why)
	}
	x.writeRecord(ExecutorForgotten{e.run()})
	for _, t := range again {
		x.placeTask(t)
	}
	x.tellExecutorEnded(ref, cmp.Or(e.why, "it ended"))
	x.sandboxes.sweepFolder(ref)
	x.leaveFramework(ref.Framework)
	x.forgetAgentIfClear()
}

// forgetAgentIfClear begins a new agent when the last executor of one that was marked gone is no more (R16).
func (x *executors) forgetAgentIfClear() {
	if x.state.identity.Gone && len(x.state.executors) == 0 {
		x.emit(Forget{"the agent was marked gone and everything on it is killed"})
	}
}

// tellExecutorEnded says that a run has ended. While there is no session nobody hears it: that there is no
// such executor any more is said by the next report, that another run of it has begun is not.
func (x *executors) tellExecutorEnded(ref api.ExecutorRef, why string) {
	next := x.state.executors[ref]
	if next != nil && !x.leader.registered {
		next.former = why
		return
	}
	x.leader.tell(protocol.ExecutorEnded{ExecutorRef: ref, Message: why, Again: next != nil, NextLaunch: x.nextLaunch(ref)})
}

// nextLaunch is the number from which on launches of the executor in this term are still on their way here.
func (x *executors) nextLaunch(ref api.ExecutorRef) uint64 {
	next := uint64(1)
	for _, t := range x.state.tasks { // order: irrelevant because it is a maximum
		if t.executor == ref && t.launch.Term == x.state.identity.Term {
			next = max(next, t.launch.Number+1)
		}
	}
	return next
}

// tellFormerEnds follows a report: of the executors that it names these are other runs than before.
func (x *executors) tellFormerEnds() {
	for _, e := range x.state.executorsInOrder() {
		if e.former != "" {
			x.tellExecutorEnded(e.ref(), e.former)
			e.former = ""
		}
	}
}

// startsAgain says whether a task goes to a new run: it never reached the old one, whose
// program worked. An executor that asks for resources is not started again: with the old run
// its leader takes them back.
func (x *executors) startsAgain(e *executor, t *task) bool {
	return x.unreached(e, t) && e.starting.Executor.Resources.IsZero()
}

// unreached says whether a task has never reached its executor, and whether that is no fault of the executor's program.
func (x *executors) unreached(e *executor, t *task) bool {
	return !t.handed && t.kill == nil && (e.subscribed || e.stopping()) && !x.frameworkRemoved(t.ref.Framework)
}

// judgeTask is what the end of its executor makes of a task.
func (x *executors) judgeTask(e *executor, t *task) (api.TaskState, api.Reason, string) {
	switch {
	case x.frameworkRemoved(t.ref.Framework):
		return api.TaskKilled, api.ReasonFrameworkRemoved, "its framework was removed"
	case t.kill != nil:
		return t.killedAs("it ended with its executor: " + e.why)
	case x.unreached(e, t) && api.MayMove(t.latest.State, api.TaskDropped, api.MoverAgent):
		return api.TaskDropped, api.ReasonExecutorTerminated, "its executor ended before it was started: " + e.why
	}
	return api.TaskFailed, cmp.Or(e.reason, api.ReasonExecutorTerminated), "its executor ended: " + e.why
}

// shutDown has an executor end by itself, within its grace and the agent's slack. It is told when
// that is on disk: from then on it takes nothing, whichever process of the agent asks.
func (x *executors) shutDown(e *executor, why string) {
	if e.order != nil || e.ending() {
		return
	}
	number := x.writeRecord(ExecutorStopping{Run: e.run(), Why: why})
	x.log("executor is shut down", field("executor", e.ref().String()), field("why", why))
	switch {
	case e.phase == phaseStarting:
		x.emit(AbandonExecutor{e.run()})
		return
	case e.phase == phaseGated || e.phase == phaseRegistering: // it has nothing to save
		x.killProcesses(e)
		return
	}
	x.follow(number, shutDownExecutor{e.run()})
}

// beginShutdown tells a run to end, now that the order is on disk, and gives it its grace.
func (x *executors) beginShutdown(run Run) {
	if e := x.state.run(run); e != nil && e.phase == phaseRunning {
		x.sendShutdown(e)
		x.awaitShutdown(e)
	}
}

// repeatShutdown tells an executor that has come back with this stream that it is to end.
func (x *executors) repeatShutdown(run Run, conn Conn) {
	if e := x.state.run(run); e != nil && e.conn == conn {
		x.sendShutdown(e)
	}
}

func (x *executors) sendShutdown(e *executor) {
	if e.listening() {
		x.emit(ToExecutor{e.conn, protocol.ExecutorShutdown{Grace: x.shutdownGrace(e)}})
	}
}

// awaitShutdown waits for the end of an executor that was told to end, as long as its grace and the agent's slack.
func (x *executors) awaitShutdown(e *executor) {
	x.setDeadline(e, x.now.Add(x.shutdownGrace(e)+x.config.KillSlack))
}

// shutdownGrace is how long the executor may take to end.
func (x *executors) shutdownGrace(e *executor) time.Duration {
	return cmp.Or(e.starting.Executor.ShutdownGrace, x.config.KillGrace)
}

// setDeadline sets the moment at which the agent stops to wait for an executor; zero = never.
func (x *executors) setDeadline(e *executor, deadline time.Time) {
	e.deadline = deadline
	if !deadline.IsZero() {
		x.wakeAt(deadline, timer{kind: timerExecutor, run: e.run()})
	}
}

// executorDue acts when an executor has taken longer than the agent waits.
func (x *executors) executorDue(run Run) {
	e := x.state.run(run)
	if e == nil || e.deadline.IsZero() || x.now.Before(e.deadline) {
		return
	}
	switch {
	case e.phase == phaseGone:
		x.forgetExecutor(e)
	case e.stopping():
		x.killExecutor(e, api.ReasonNone, "it did not shut down within its grace")
	case e.phase == phaseRegistering:
		x.killExecutor(e, api.ReasonExecutorRegistrationTimeout, "it did not subscribe within "+x.config.ExecutorTimeout.String())
	case e.conn == 0:
		x.killExecutor(e, api.ReasonExecutorTerminated, "it did not come back within "+x.config.ExecutorTimeout.String())
	}
}

// idleDue ends a built-in executor that has had nothing to do for long enough.
func (x *executors) idleDue(run Run) {
	e := x.state.run(run)
	if e == nil || len(e.tasks) > 0 || x.now.Sub(e.idleSince) < x.config.ExecutorIdle {
		return
	}
	x.shutDown(e, "it had no task for "+x.config.ExecutorIdle.String())
}
