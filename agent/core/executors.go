package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// executors is the room of the executors' runs: their start, once it is on disk; the fork and the gate (R10); their
// sessions; and killing every process that a run leaves behind (R11). It decides what becomes of tasks whose executor
// has ended. It never decides that a task is to run or to be killed.
type executors struct {
	*base
	leader    *leader
	sandboxes *sandboxes
	statuses  *statuses
	conns     map[Conn]Run // the run that each session belongs to
	unheard   uint64       // how many messages were dropped because there was no session to pass them on to
}

// placeTask gives the task an executor: the run that exists, whatever its phase, or a new one.
func (x *executors) placeTask(t *task) {
	e := x.state.executors[t.executor]
	if e == nil {
		e = x.startExecutor(t)
	}
	e.addTask(t)
	x.sandboxes.noteTasks(e)
	e.idleSince = x.now
}

// startExecutor begins a run: ExecutorStarting is written first, and the fork follows when that is on disk (R10).
func (x *executors) startExecutor(t *task) *executor {
	record := ExecutorStarting{
		Run: Run{t.executor, x.state.runs + 1}, Role: t.launch.Role, Resources: t.launch.ExecutorResources, Builtin: true,
		Executor: api.Executor{ID: api.CommandExecutor}, LaunchTerm: t.launch.Term, LaunchNumber: t.launch.Number,
		Receipt: t.launch.ExecutorReceipt,
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

// forkExecutor asks the shell to fork the child of a run whose start is on disk.
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

// executorForked writes down the child's process. The child waits at its gate until that is on disk.
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

// releaseExecutor opens the gate at which the child of a run waits.
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

// acceptSession checks who subscribes, and makes the stream the executor's session. It returns nil if it refused.
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
	e.conn, e.subscribed = w.Conn, true
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

// admitForeign decides about an executor whose version is too far from the agent's. A new one is ended before it gets a
// task. One that was running before this agent process is kept, because its tasks run (R24).
func (x *executors) admitForeign(e *executor, conn Conn, why error) (welcome bool) {
	x.log("executor is of another version", field("executor", e.ref().String()), field("why", why.Error()))
	if e.phase != phaseRegistering {
		return true
	}
	x.emit(CloseExecutor{conn, api.E("executor.subscribe", api.Unsupported, e.ref().String(), why)})
	x.killExecutor(e, api.ReasonLaunchFailed, why.Error())
	return false
}

// refuseStranger returns why a subscription is refused, or nil if it is not.
func (x *executors) refuseStranger(e *executor, s protocol.SubscribeExecutor) *api.Error {
	refuse := func(kind api.Kind, why string) *api.Error {
		return api.E("executor.subscribe", kind, s.ExecutorRef.String(), sentence(why))
	}
	if e == nil || e.phase == phaseStarting || e.phase == phaseGated {
		return refuse(api.NotFound, "this agent did not start such an executor")
	}
	hash := sha256.Sum256([]byte(s.Token))
	if hex.EncodeToString(hash[:]) != e.started.TokenHash { // comparing hashes takes a time that tells nothing
		return refuse(api.Denied, "wrong token")
	}
	return nil
}

// welcomeExecutor sends the first event of a session.
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

// onStream returns the executor whose session this stream is, or nil.
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

// passMessageUp passes a message on to the leader. Without a session with the leader the message is dropped: messages
// are delivered at most once, and none is kept.
func (x *executors) passMessageUp(e *executor, message protocol.ExecutorMessage) {
	if !x.leader.registered {
		x.unheard++
		return
	}
	x.leader.tell(protocol.MessageFromExecutor{ExecutorRef: e.ref(), Data: message.Data})
}

// passMessageDown passes a message on to an executor. Without a session with the executor the message is dropped.
func (x *executors) passMessageDown(message protocol.MessageToExecutor) {
	e := x.state.executors[message.ExecutorRef]
	if e == nil || !e.listening() {
		x.unheard++
		return
	}
	x.emit(ToExecutor{e.conn, protocol.ExecutorMessage{Data: message.Data}})
}

// executorClosed gives an executor that has lost its stream time to come back. A run whose processes are gone is
// forgotten.
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

// executorExited begins the end of a run. First whatever its tasks left running is killed (R11).
func (x *executors) executorExited(w ExecutorExited) {
	e := x.state.run(w.Run)
	if e == nil || e.ending() {
		return
	}
	x.log("executor ended", field("executor", e.ref().String()), field("why", w.Message))
	e.why = cmp.Or(e.why, w.Message)
	x.killProcesses(e)
}

// killExecutor ends a run at once, without a grace.
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
		x.emit(AbandonExecutor{e.run()}) // ExecutorFailed follows, unless the child was forked meanwhile
		return
	}
	x.killProcesses(e)
}

// outgrown ends a run that holds a volume in which there is more than there may be. When only a task holds the volume,
// that is the task's matter.
func (x *executors) outgrown(e *executor, id api.VolumeID, why string) {
	if slices.Contains(volumesIn(e.starting.Executor.Resources), id) {
		x.killExecutor(e, api.ReasonDiskLimit, why)
	}
}

// killProcesses begins to kill all processes that belong to a run.
func (x *executors) killProcesses(e *executor) {
	e.moveTo(phaseEnding)
	x.setDeadline(e, time.Time{})
	x.emit(KillGroups{Run: e.run(), Leader: e.started.Process, Sandbox: x.executorFolder(e.ref())})
}

// groupsGone handles a run of which no process is left. What the executor said last may still be in its stream, so the
// stream is read to its end before the run is forgotten.
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
	x.setDeadline(e, x.now.Add(2*time.Second)) // another process may hold the stream open, so the wait is bounded
}

// forgetExecutor settles the tasks of a run that has ended. Tasks that never reached it start on a new run, unless the
// executor's program never came as far as to subscribe. What becomes of the tasks is written before the run is
// forgotten: a later process that finds a task without a run takes it for one that never had any (R9, R35).
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
	x.sandboxes.noteEnd(ref)
	x.statuses.volumes.release(volumesIn(e.starting.Executor.Resources))
	for _, t := range again {
		x.placeTask(t)
	}
	x.tellExecutorEnded(ref, cmp.Or(e.why, "it ended"))
	x.sandboxes.sweepFolder(ref)
	x.leaveFramework(ref.Framework)
	x.forgetAgentIfClear()
}

// forgetAgentIfClear begins a new agent once no executor is left of one that was marked gone (R16).
func (x *executors) forgetAgentIfClear() {
	if x.state.identity.Gone && len(x.state.executors) == 0 {
		x.emit(Forget{"the agent was marked gone and everything on it is killed"})
	}
}

// tellExecutorEnded tells the leader that a run has ended. Without a session the leader can't be told. If the executor
// has no new run, the next report says so by not naming it. If it has one, the report can't say that it is a new run:
// the reason is kept in former and told after the report.
func (x *executors) tellExecutorEnded(ref api.ExecutorRef, why string) {
	next := x.state.executors[ref]
	if next != nil && !x.leader.registered {
		next.former = why
		return
	}
	x.leader.tell(protocol.ExecutorEnded{ExecutorRef: ref, Message: why, Again: next != nil, NextLaunch: x.nextLaunch(ref)})
}

// nextLaunch returns the number from which on launches of this executor in this term have not arrived here yet.
func (x *executors) nextLaunch(ref api.ExecutorRef) uint64 {
	next := uint64(1)
	for _, t := range x.state.tasks { // order: irrelevant because it is a maximum
		if t.executor == ref && t.launch.Term == x.state.identity.Term {
			next = max(next, t.launch.Number+1)
		}
	}
	return next
}

// tellFormerEnds is called after a report. It tells which of the reported executors are new runs, and why the previous
// ones ended.
func (x *executors) tellFormerEnds() {
	for _, e := range x.state.executorsInOrder() {
		if e.former != "" {
			x.tellExecutorEnded(e.ref(), e.former)
			e.former = ""
		}
	}
}

// startsAgain says whether a task starts on a new run: it never reached the old run, whose program worked. An executor
// that asks for resources is not started again, because the leader takes those back when the old run ends.
func (x *executors) startsAgain(e *executor, t *task) bool {
	return x.unreached(e, t) && e.starting.Executor.Resources.IsZero()
}

// unreached says whether a task never reached its executor for a reason that is not the fault of the executor's
// program.
func (x *executors) unreached(e *executor, t *task) bool {
	return !t.handed && t.kill == nil && (e.subscribed || e.stopping()) && !x.frameworkRemoved(t.ref.Framework)
}

// judgeTask returns the state and reason in which a task ends when its executor has ended, and why in words.
func (x *executors) judgeTask(e *executor, t *task) (api.TaskState, api.Reason, string) {
	switch {
	case x.frameworkRemoved(t.ref.Framework):
		return api.TaskKilled, api.ReasonFrameworkRemoved, "its framework was removed"
	case t.kill != nil:
		return t.killedAs("it ended with its executor: " + e.why)
	}
	reason := x.judgeExecutor(e)
	never := x.unreached(e, t) || !t.handed && reason.Blameless()
	if never && api.MayMove(t.latest.State, api.TaskDropped, api.MoverAgent) {
		return api.TaskDropped, reason, "its executor ended before it was started: " + e.why
	}
	return api.TaskFailed, reason, "its executor ended: " + e.why
}

// judgeExecutor returns the reason for the end of a run. The executor for commands is a part of Tender: its end is not
// the fault of its tasks, unless their framework has asked for it, or one of them has used up what they may use (R59).
func (x *executors) judgeExecutor(e *executor) api.Reason {
	reason := cmp.Or(e.reason, api.ReasonExecutorTerminated)
	limit := reason == api.ReasonMemoryLimit || reason == api.ReasonPidsLimit
	if e.starting.Builtin && !e.stopping() && !limit && !reason.Blameless() {
		return api.ReasonAgentFailed
	}
	return reason
}

// shutDown orders an executor to end by itself, within its grace and the agent's slack. The executor is told once the
// order is on disk. From the order on it is handed no tasks, also not by a later process of the agent.
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
	case e.phase == phaseGated || e.phase == phaseRegistering: // no task was handed to it yet, so it has nothing to save
		x.killProcesses(e)
		return
	}
	x.follow(number, shutDownExecutor{e.run()})
}

// beginShutdown tells a run to end, now that the order is on disk, and starts its grace.
func (x *executors) beginShutdown(run Run) {
	if e := x.state.run(run); e != nil && e.phase == phaseRunning {
		x.sendShutdown(e)
		x.awaitShutdown(e)
	}
}

// repeatShutdown repeats the order to end to an executor that has come back with this stream.
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

// awaitShutdown sets the deadline of an executor that was told to end: its grace and the agent's slack from now on.
func (x *executors) awaitShutdown(e *executor) {
	x.setDeadline(e, x.now.Add(x.shutdownGrace(e)+x.config.KillSlack))
}

// shutdownGrace is how long the executor may take to end by itself.
func (x *executors) shutdownGrace(e *executor) time.Duration {
	return cmp.Or(e.starting.Executor.ShutdownGrace, x.config.KillGrace)
}

// setDeadline sets until when the agent waits for an executor; zero = for ever.
func (x *executors) setDeadline(e *executor, deadline time.Time) {
	e.deadline = deadline
	if !deadline.IsZero() {
		x.timers.Add(deadline, timer{kind: timerExecutor, run: e.run()})
	}
}

// executorDue acts when the deadline of an executor has passed.
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

// idleDue shuts down a built-in executor that has had no task for Config.ExecutorIdle.
func (x *executors) idleDue(run Run) {
	e := x.state.run(run)
	if e == nil || len(e.tasks) > 0 || x.now.Sub(e.idleSince) < x.config.ExecutorIdle {
		return
	}
	x.shutDown(e, "it had no task for "+x.config.ExecutorIdle.String())
}
