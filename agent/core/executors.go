package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// startExecutor begins a run: Starting on disk, then the fork (R10).
func (c *Core) startExecutor(t *task) *executor {
	record := ExecutorStarting{
		Run: Run{t.executor, c.state.runs + 1}, Role: t.launch.Role, Resources: t.launch.ExecutorResources, Builtin: true,
		Executor: api.Executor{ID: api.CommandExecutor},
	}
	if own := t.launch.Task.Executor; own != nil {
		record.Executor, record.Builtin = *own, false
	}
	number := c.put(record)
	e := c.state.executors[t.executor]
	c.log("executor is started", field("executor", t.executor.String()))
	c.after(number, forkExecutor{e.run()})
	return e
}

func (c *Core) fork(run Run) {
	e := c.state.run(run)
	if e == nil || e.phase != phaseStarting {
		return
	}
	c.emit(StartExecutor{
		Run: run, Executor: e.starting.Executor, Builtin: e.starting.Builtin, Sandbox: c.executorFolder(e.ref()),
		Volumes: volumesIn(e.starting.Resources),
	})
}

func (c *Core) executorForked(w ExecutorForked) {
	e := c.state.run(w.Run)
	if e == nil || e.phase != phaseStarting || e.order != nil {
		c.emit(AbandonExecutor{w.Run})
		return
	}
	e.phase = phaseGated
	number := c.put(ExecutorStarted(w))
	c.after(number, releaseExecutor{w.Run})
}

// releaseExecutor opens the gate behind which the child of a run waits.
func (c *Core) releaseExecutor(run Run) {
	e := c.state.run(run)
	if e == nil || e.phase != phaseGated {
		return
	}
	e.phase = phaseRegistering
	c.emit(ReleaseExecutor{run})
	c.patience(e, c.now.Add(c.config.ExecutorTimeout))
}

func (c *Core) executorFailed(w ExecutorFailed) {
	e := c.state.run(w.Run)
	if e == nil || e.started.Process.PID != 0 {
		return
	}
	c.log("executor did not start", field("executor", e.ref().String()), field("why", w.Message))
	e.reason, e.why = cmp.Or(e.reason, w.Reason), cmp.Or(e.why, w.Message)
	c.forgetExecutor(e)
}

// executorOpened checks who it is, then brings both sides to one picture: statuses it
// owes, tasks that it should have, kills that it may have missed.
func (c *Core) executorOpened(w ExecutorOpened) {
	e := c.state.executors[w.Subscribe.ExecutorRef]
	if err := c.stranger(e, w.Subscribe); err != nil {
		c.emit(CloseExecutor{w.Conn, err})
		c.log("executor refused", field("executor", w.Subscribe.ExecutorRef.String()), field("why", err.Error()))
		return
	}
	if err := protocol.Neighbours(c.config.Version, w.Subscribe.Version); err != nil && !c.foreign(e, w.Conn, err) {
		return
	}
	if e.conn != 0 {
		c.emit(CloseExecutor{e.conn, api.E("executor.subscribe", api.Fenced, e.ref().String(), sentence("a newer session of it was opened"))})
		delete(c.conns, e.conn)
	}
	e.conn, e.subscribed = w.Conn, true
	c.conns[w.Conn] = e
	c.welcome(e)
	if e.phase != phaseEnding {
		e.phase = phaseRunning
		if e.order == nil {
			c.patience(e, time.Time{})
		}
	}
	c.align(e, w.Subscribe)
}

// foreign judges an executor whose version is too far from ours: a new one is ended before
// it has a task, one that was there before us is kept, as its tasks run (R24).
func (c *Core) foreign(e *executor, conn Conn, why error) (welcome bool) {
	c.log("executor is of another version", field("executor", e.ref().String()), field("why", why.Error()))
	if e.phase != phaseRegistering {
		return true
	}
	c.emit(CloseExecutor{conn, api.E("executor.subscribe", api.Unsupported, e.ref().String(), why)})
	c.killExecutor(e, api.ReasonLaunchFailed, why.Error())
	return false
}

// Stranger says why a subscription with this page is refused, or nil: before its other pages are read.
func (c *Core) Stranger(s protocol.SubscribeExecutor) *api.Error {
	return c.stranger(c.state.executors[s.ExecutorRef], s)
}

// stranger says why a subscription is refused, or nil.
func (c *Core) stranger(e *executor, s protocol.SubscribeExecutor) *api.Error {
	refuse := func(kind api.Kind, why string) *api.Error {
		return api.E("executor.subscribe", kind, s.ExecutorRef.String(), sentence(why))
	}
	if e == nil || e.phase == phaseStarting || e.phase == phaseGated {
		return refuse(api.NotFound, "this agent did not start such an executor")
	}
	hash := sha256.Sum256([]byte(s.Token))
	if hex.EncodeToString(hash[:]) != e.started.TokenHash { // hashes are compared: time tells nothing of the token
		return refuse(api.Denied, "wrong token")
	}
	return nil
}

func (c *Core) welcome(e *executor) {
	var framework api.Framework
	if f := c.state.frameworks[e.ref().Framework]; f != nil {
		framework = f.Framework
	}
	c.emit(ToExecutor{e.conn, protocol.ExecutorSubscribed{
		Agent: c.state.identity.Agent, Hostname: c.config.Agent.Hostname, Executor: e.starting.Executor, Framework: framework,
		RecoveryTimeout: c.config.RecoveryTimeout,
	}})
}

func (c *Core) align(e *executor, s protocol.SubscribeExecutor) {
	for _, status := range s.Unacknowledged {
		c.executorStatus(e.conn, e.ref(), status)
	}
	for _, id := range s.Tasks {
		if e.tasks[id] == nil { // it has ended here, or never was
			c.emit(ToExecutor{e.conn, protocol.ExecutorKill{Task: id}})
		}
	}
	has := make(map[api.TaskID]bool, len(s.Tasks))
	for _, id := range s.Tasks {
		has[id] = true
	}
	for _, t := range e.tasksInOrder() {
		t.handed = has[t.ref.Task] // what it does not name never reached it
		switch {
		case t.kill == nil:
			if t.durable && !t.handed { // an agent before this one may have ended over its files
				c.prepare(t)
			}
			c.handOver(t)
		case t.handed && t.pressed > 0:
			c.passKill(t)
		default:
			c.actOnKill(t)
		}
	}
	if e.stopping() {
		c.after(c.written, repeatShutdown{e.run(), e.conn}) // the order may be on its way to the disk
	}
	c.idle(e)
}

func (c *Core) executorCalled(w ExecutorCalled) {
	e := c.conns[w.Conn]
	if e == nil {
		return
	}
	for _, call := range w.Calls {
		switch call := call.(type) {
		case protocol.ExecutorStatus:
			c.executorStatus(w.Conn, e.ref(), call)
		case protocol.ExecutorMessage:
			c.passMessageUp(e, call)
		case protocol.ExecutorHeartbeat, protocol.SubscribeExecutor: // nothing to do
		}
	}
}

// passMessageUp passes a message on to the leader. While there is none it is dropped:
// messages are delivered at most once, and none is kept.
func (c *Core) passMessageUp(e *executor, message protocol.ExecutorMessage) {
	if !c.leader.registered {
		c.unheard++
		return
	}
	c.tell(protocol.MessageFromExecutor{ExecutorRef: e.ref(), Data: message.Data})
}

// passMessageDown passes a message on to an executor that has a session, as passMessageUp does.
func (c *Core) passMessageDown(message protocol.MessageToExecutor) {
	e := c.state.executors[message.ExecutorRef]
	if e == nil || !e.listening() {
		c.unheard++
		return
	}
	c.emit(ToExecutor{e.conn, protocol.ExecutorMessage{Data: message.Data}})
}

func (c *Core) executorClosed(w ExecutorClosed) {
	e := c.conns[w.Conn]
	if e == nil {
		return
	}
	delete(c.conns, w.Conn)
	e.conn = 0
	switch {
	case e.gone:
		c.forgetExecutor(e)
	case e.phase == phaseRunning && e.order == nil:
		c.patience(e, c.now.Add(c.config.ExecutorTimeout))
	}
}

// executorExited begins the end of a run: what its tasks left running goes first (R11).
func (c *Core) executorExited(w ExecutorExited) {
	e := c.state.run(w.Run)
	if e == nil || e.killed {
		return
	}
	c.log("executor ended", field("executor", e.ref().String()), field("why", w.Message))
	e.why = cmp.Or(e.why, w.Message)
	c.killProcesses(e)
}

// killExecutor ends a run at once.
func (c *Core) killExecutor(e *executor, reason api.Reason, why string) {
	if e.killed {
		return
	}
	if e.order == nil {
		c.put(ExecutorStopping{Run: e.run(), Kill: true, Reason: reason, Why: why})
	}
	e.reason, e.why = cmp.Or(e.reason, reason), cmp.Or(e.why, why)
	c.log("executor is killed", field("executor", e.ref().String()), field("why", why))
	if e.phase == phaseStarting {
		c.emit(AbandonExecutor{e.run()}) // ExecutorFailed follows, or ExecutorForked came first
		return
	}
	c.killProcesses(e)
}

func (c *Core) killProcesses(e *executor) {
	e.killed, e.phase = true, phaseEnding
	c.patience(e, time.Time{})
	c.emit(KillGroups{Run: e.run(), Leader: e.started.Process, Sandbox: c.executorFolder(e.ref())})
}

// groupsGone: what it still said is in its stream, so that is read to the end first.
func (c *Core) groupsGone(w GroupsGone) {
	e := c.state.run(w.Run)
	if e == nil {
		return
	}
	e.gone = true
	if e.conn == 0 {
		c.forgetExecutor(e)
		return
	}
	c.patience(e, c.now.Add(2*time.Second)) // somebody else may hold the stream open
}

// forgetExecutor settles the tasks of a run that has ended. Those that never reached
// it start on a new one, unless this program never came as far as to subscribe. What
// becomes of its tasks is written before the run is forgotten: whoever finds a task
// without a run may take it for one that never had any (R9, R35).
func (c *Core) forgetExecutor(e *executor) {
	if e.conn != 0 {
		c.emit(CloseExecutor{e.conn, nil})
		delete(c.conns, e.conn)
	}
	ref, tasks := e.ref(), e.tasksInOrder()
	if c.state.identity.Gone {
		tasks = nil
	}
	var again []*task
	for _, t := range tasks {
		if c.startsAgain(e, t) {
			again = append(again, t)
			continue
		}
		state, reason, why := c.verdict(e, t)
		c.setStatus(t, state, reason, why)
	}
	c.put(ExecutorForgotten{e.run()})
	for _, t := range again {
		c.place(t)
	}
	c.tellEnded(ref, cmp.Or(e.why, "it ended"))
	c.sweepFolder(ref)
	c.leaveFramework(ref.Framework)
	c.forgetIfClear()
}

// tellEnded says that a run has ended. While there is no session nobody hears it: that there is no
// such executor any more is said by the next report, that another run of it has begun is not.
func (c *Core) tellEnded(ref api.ExecutorRef, why string) {
	next := c.state.executors[ref]
	if next != nil && !c.leader.registered {
		next.former = why
		return
	}
	c.tell(protocol.ExecutorEnded{ExecutorRef: ref, Message: why, Again: next != nil})
}

// tellFormer follows a report: of the executors that it names these are other runs than before.
func (c *Core) tellFormer() {
	for _, e := range c.state.executorsInOrder() {
		if e.former != "" {
			c.tellEnded(e.ref(), e.former)
			e.former = ""
		}
	}
}

// startsAgain says whether a task goes to a new run: it never reached the old one, whose
// program worked. An executor that asks for resources is not started again: with the old run
// its leader takes them back.
func (c *Core) startsAgain(e *executor, t *task) bool {
	return c.unreached(e, t) && e.starting.Executor.Resources.IsZero()
}

func (c *Core) unreached(e *executor, t *task) bool {
	return !t.handed && t.kill == nil && (e.subscribed || e.stopping()) && !c.removed(t.ref.Framework)
}

func (c *Core) removed(id api.FrameworkID) bool {
	f := c.state.frameworks[id]
	return f != nil && f.removed
}

// verdict is what the end of its executor makes of a task.
func (c *Core) verdict(e *executor, t *task) (api.TaskState, api.Reason, string) {
	switch {
	case c.removed(t.ref.Framework):
		return api.TaskKilled, api.ReasonFrameworkRemoved, "its framework was removed"
	case t.kill != nil:
		return api.TaskKilled, t.kill.Reason, "it ended with its executor: " + e.why
	case c.unreached(e, t) && api.MayMove(t.latest.State, api.TaskDropped, api.MoverAgent):
		return api.TaskDropped, api.ReasonExecutorTerminated, "its executor ended before it was started: " + e.why
	}
	return api.TaskFailed, cmp.Or(e.reason, api.ReasonExecutorTerminated), "its executor ended: " + e.why
}

// stop has an executor end by itself, within its grace and the agent's slack. It is told when
// that is on disk: from then on it takes nothing, whichever process of the agent asks.
func (c *Core) stop(e *executor, why string) {
	if e.order != nil || e.phase == phaseEnding {
		return
	}
	number := c.put(ExecutorStopping{Run: e.run(), Why: why})
	c.log("executor is shut down", field("executor", e.ref().String()), field("why", why))
	switch {
	case e.phase == phaseStarting:
		c.emit(AbandonExecutor{e.run()})
		return
	case e.phase == phaseGated || e.phase == phaseRegistering: // it has nothing to save
		c.killProcesses(e)
		return
	}
	c.after(number, shutDownExecutor{e.run()})
}

func (c *Core) tellToEnd(e *executor) {
	if e.listening() {
		c.emit(ToExecutor{e.conn, protocol.ExecutorShutdown{Grace: c.shutdownGrace(e)}})
	}
}

func (c *Core) waitForEnd(e *executor) {
	c.patience(e, c.now.Add(c.shutdownGrace(e)+c.config.KillSlack))
}

// patience sets the moment at which the agent stops to wait for an executor; zero = never.
func (c *Core) patience(e *executor, deadline time.Time) {
	e.deadline = deadline
	if !deadline.IsZero() {
		c.at(deadline, timer{kind: timerExecutor, run: e.run()})
	}
}

func (c *Core) executorDue(run Run) {
	e := c.state.run(run)
	if e == nil || e.deadline.IsZero() || c.now.Before(e.deadline) {
		return
	}
	switch {
	case e.gone:
		c.forgetExecutor(e)
	case e.stopping():
		c.killExecutor(e, api.ReasonNone, "it did not shut down within its grace")
	case e.phase == phaseRegistering:
		c.killExecutor(e, api.ReasonExecutorRegistrationTimeout, "it did not subscribe within "+c.config.ExecutorTimeout.String())
	case e.conn == 0:
		c.killExecutor(e, api.ReasonExecutorTerminated, "it did not come back within "+c.config.ExecutorTimeout.String())
	}
}

// idle starts the built-in executor's clock when it has nothing to do.
func (c *Core) idle(e *executor) {
	if e.starting.Builtin && len(e.tasks) == 0 {
		e.idleSince = c.now
		c.in(c.config.ExecutorIdle, timer{kind: timerIdle, run: e.run()})
	}
}

func (c *Core) idleDue(run Run) {
	e := c.state.run(run)
	if e == nil || len(e.tasks) > 0 || c.now.Sub(e.idleSince) < c.config.ExecutorIdle {
		return
	}
	c.stop(e, "it had no task for "+c.config.ExecutorIdle.String())
}
