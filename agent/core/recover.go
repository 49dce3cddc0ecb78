package core

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// recoverAgent begins this process with what the previous one has left on disk.
func (c *Core) recoverAgent(w Started) {
	rebooted := c.state.identity.BootID != "" && c.state.identity.BootID != w.BootID
	c.sandboxes.recoverStubs() // first, because settling an executor asks whether its folder is still needed
	for _, t := range c.state.tasksInOrder() {
		c.recoverTask(t)
	}
	alive := map[uint64]bool{}
	for _, run := range w.Alive {
		alive[run.Number] = true
	}
	for _, e := range c.state.executorsInOrder() {
		c.recoverExecutor(e, rebooted, alive[e.run().Number])
	}
	for _, t := range c.state.tasksInOrder() {
		if !t.ended() && c.state.executors[t.executor] == nil && !c.state.identity.Gone {
			c.recoverAlone(t, rebooted)
		}
	}
	c.settleIdentity(w, rebooted)
	for _, id := range slices.Sorted(maps.Keys(c.state.volumes)) {
		c.emit(CreateVolume{Volume: id})
	}
	c.resume()
}

// resume carries out what was stored and may not have been carried out.
func (c *Core) resume() {
	c.pressure.sampleDue()
	for _, id := range slices.Sorted(maps.Keys(c.state.frameworks)) {
		if c.state.frameworks[id].removed {
			c.clearFramework(id)
		}
		c.leaveFramework(id) // the copy may be all that was written of a launch
	}
	for _, id := range slices.Sorted(maps.Keys(c.state.groups)) {
		c.kills.endGroupIfFailed(id) // the others of the group may not be killed yet
	}
	if c.state.identity.Draining {
		c.killForDrain()
	}
	if c.state.identity.Gone {
		c.clearAgent()
	}
}

// settleIdentity makes the identity at a first start, or notes a reboot. The record is written after those of what the
// reboot did to the tasks: if the agent is killed in between, the next process finds the reboot again.
func (c *Core) settleIdentity(w Started, rebooted bool) {
	who := c.state.identity
	who.Nonce = cmp.Or(who.Nonce, w.Nonce)
	who.BootID = w.BootID
	who.Rebooted = who.Rebooted || rebooted && who.Agent != ""
	if who != c.state.identity {
		c.writeRecord(who)
	}
}

// recoverTask notes that the task's statuses are on disk, and assigns the task to its executor.
func (c *Core) recoverTask(t *task) {
	t.stored(t.latest.Number)
	if e := c.state.executors[t.executor]; e != nil && !t.ended() {
		e.addTask(t)
		t.handed = e.started.Process.PID != 0 && !e.launchedAfterOrder(t) // perhaps: the executor says so when it subscribes
	}
	if t.ended() {
		return
	}
	c.watchCompletion(t)
	if t.wantsNothing() && !t.namesSecrets() {
		t.files = filesReady
	}
}

// recoverExecutor settles what became of a run while there was no process of the agent.
func (c *Core) recoverExecutor(e *executor, rebooted, alive bool) {
	switch {
	case rebooted:
		c.endLost(e, api.TaskGone, api.ReasonAgentRebooted, "the machine was booted again")
	case e.started.Process.PID == 0:
		// Its child, if there was one, never passed the gate (R10).
		c.endLost(e, api.TaskDropped, api.ReasonAgentRestarted, "the agent was restarted before its executor was started")
	case alive:
		c.log("executor found alive", field("executor", e.ref().String()))
		c.recoverAlive(e)
	default:
		c.executors.executorExited(ExecutorExited{Run: e.run(), Message: "it ended while the agent was away"})
	}
}

// recoverAlive goes on with an executor that still lives. If it was told to end, its grace begins anew: it may not have
// received the order, and no clock runs on while there is no process of the agent (R23).
func (c *Core) recoverAlive(e *executor) {
	e.moveTo(phaseRunning)
	e.subscribed = true
	switch {
	case e.stopping():
		c.executors.awaitShutdown(e)
	case e.order != nil:
		c.executors.killExecutor(e, e.order.Reason, e.order.Why)
	default:
		c.executors.setDeadline(e, c.now.Add(c.config.ExecutorTimeout))
	}
}

// endLost settles the tasks of a run of which no process can be left, before the run is forgotten. (Protocol rule R35.)
func (c *Core) endLost(e *executor, state api.TaskState, reason api.Reason, why string) {
	for _, t := range e.tasksInOrder() {
		c.endUnstarted(t, state, reason, why)
	}
	c.writeRecord(ExecutorForgotten{e.run()})
	c.sandboxes.sweepFolder(e.ref())
	c.leaveFramework(e.ref().Framework)
}

// endUnstarted ends a task in the given state, if the table of moves allows it: a task that has got further than
// STARTING can't be DROPPED and is FAILED.
func (c *Core) endUnstarted(t *task, state api.TaskState, reason api.Reason, why string) {
	switch {
	case t.kill != nil && state != api.TaskGone:
		state, reason, why = t.killedAs(why)
	case !api.MayMove(t.latest.State, state, api.MoverAgent):
		state = api.TaskFailed
	}
	c.statuses.setStatus(t, state, reason, why)
}

// recoverAlone goes on with a task that has no executor. A task whose executor was forgotten, or that has left STAGING,
// is never started: the records about it are then incomplete, and it may have run (R9).
func (c *Core) recoverAlone(t *task, rebooted bool) {
	const why = "the agent was killed as its executor ended; whether it had been started is not known"
	switch {
	case rebooted:
		c.statuses.setStatus(t, api.TaskGone, api.ReasonAgentRebooted, "the machine was booted again")
	case (t.executorForgotten || t.latest.State != api.TaskStaging) && t.kill != nil:
		state, reason, why := t.killedAs(why)
		c.statuses.setStatus(t, state, reason, why)
	case t.executorForgotten || t.latest.State != api.TaskStaging:
		c.statuses.setStatus(t, api.TaskFailed, api.ReasonAgentRestarted, why)
	case t.kill != nil:
		c.kills.actOnKill(t)
	default:
		c.executors.placeTask(t)
		c.launches.prepareTask(t)
	}
}
