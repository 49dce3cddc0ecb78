package core

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// launch takes a task on: its record, then its executor, then the handing over.
func (c *Core) launch(e protocol.LaunchTask) {
	record := TaskLaunched{
		Task: e.Task, Framework: e.Framework.ID, Role: e.Role, Resources: e.Resources, ExecutorResources: e.ExecutorResources,
		Term: c.state.identity.Term, Number: e.Number, At: c.now,
	}
	t := newTask(record, c.state.identity.Agent)
	if c.nameless(t) || c.known(t) {
		return
	}
	if err := e.Task.Check(); err != nil {
		c.refuse(t, api.TaskError, api.ReasonTaskInvalid, err.Error())
		return
	}
	if reason, why := c.unwanted(t, e.Task.Executor); reason != api.ReasonNone {
		c.refuse(t, api.TaskDropped, reason, why)
		return
	}
	c.keepFramework(e.Framework)
	number := c.put(record)
	t = c.state.tasks[t.ref]
	if t.revocable() {
		c.watchPressure()
	}
	c.after(number, handOverTask{t.launchID()})
	c.place(t)
}

// nameless drops a launch whose names are none: they become folders, and there is
// nobody to tell. The leader concludes DROPPED from its absence (R8).
func (c *Core) nameless(t *task) bool {
	err := cmp.Or(api.CheckID("framework", string(t.ref.Framework)), api.CheckID("task", string(t.ref.Task)),
		api.CheckID("executor", string(t.executor.Executor)))
	if err != nil {
		c.log("launch dropped", field("why", err.Error()))
	}
	return err != nil
}

// known refuses an ID that the agent knows, and ignores the very same launch (R9).
// The refusal has no number: the ID's own statuses go on.
func (c *Core) known(t *task) bool {
	old := c.state.tasks[t.ref]
	_, stubbed := c.state.stubbed[t.ref]
	if old == nil && !stubbed {
		return false
	}
	if old != nil && old.launch.Term == t.launch.Term && old.launch.Number == t.launch.Number {
		return true
	}
	status := t.latest
	status.State, status.Reason, status.Source, status.At = api.TaskDropped, api.ReasonTaskDuplicate, api.MoverAgent, c.now
	status.Message = "the agent knows a task of this ID already; IDs are never used twice"
	c.tell(protocol.StatusUpdate{Status: status})
	c.log("launch refused", field("task", t.ref.String()), field("why", status.Reason.String()))
	return true
}

// unwanted says why a launch can't be taken on; ReasonNone when it can.
func (c *Core) unwanted(t *task, own *api.Executor) (api.Reason, string) {
	f, e := c.state.frameworks[t.ref.Framework], c.state.executors[t.executor]
	switch {
	case f != nil && f.removed:
		return api.ReasonFrameworkRemoved, "its framework was removed and what it left is being killed"
	case c.state.identity.Draining:
		return api.ReasonAgentDraining, "the agent is being drained"
	case c.pressure.on && t.revocable():
		return api.ReasonRevoked, "the agent's tasks need what was offered as revocable"
	case c.unable() != "":
		c.tellUnable() // before the refusal: what it gives back is not to be offered
		return c.whyUnable(), c.unable()
	case own != nil && !own.Resources.IsZero() && t.launch.ExecutorResources.IsZero() && (e == nil || e.order != nil || e.phase == phaseEnding):
		// The leader believed that it runs, so its resources are not accounted for.
		return api.ReasonExecutorTerminated, "its executor ended while the launch was on its way"
	}
	return api.ReasonNone, ""
}

// unable says why nothing at all can be started; "" = something can. As long as there is a reason
// the leader offers nothing of this agent, or it would offer the same again for each refusal.
func (c *Core) unable() string {
	switch c.whyUnable() {
	case api.ReasonDiskFull:
		return "the agent's disk is full; what is left is kept for the tasks that run"
	case api.ReasonLaunchFailed:
		return "the agent holds as many tasks as it can keep, " + strconv.Itoa(c.config.TasksMax)
	}
	return ""
}

func (c *Core) whyUnable() api.Reason {
	switch {
	case c.diskFull:
		return api.ReasonDiskFull
	case len(c.state.tasks) >= c.config.TasksMax:
		return api.ReasonLaunchFailed
	}
	return api.ReasonNone
}

// refuse ends a launch that made no task here. Its status has no number: it is told once and
// comes never again, as the same ID may be launched anew, and a copy would then tell of the
// wrong launch. Should it be lost, the leader concludes the same from the task's absence (R8);
// nothing is stored, so a full disk needs no room for it.
func (c *Core) refuse(t *task, state api.TaskState, reason api.Reason, why string) {
	status := c.status(t, state, reason, why)
	status.Number = 0
	c.log("launch refused", field("task", t.ref.String()), field("why", reason.String()))
	c.tell(protocol.StatusUpdate{Status: status})
}

// place sees to it that the task has an executor: the one that is there, whatever it
// is doing, or a new run.
func (c *Core) place(t *task) {
	e := c.state.executors[t.executor]
	if e == nil {
		e = c.startExecutor(t)
	}
	e.tasks[t.ref.Task] = t
	e.idleSince = c.now
}

// prepare has the task's files fetched, and its volumes shown in its folder, while its
// executor may still be starting.
func (c *Core) prepare(t *task) {
	uris, volumes := t.wants()
	if len(uris) == 0 && len(volumes) == 0 {
		t.files = filesReady
		return
	}
	if t.files != filesAbsent || t.ended() || t.kill != nil {
		return
	}
	t.files = filesComing
	c.emit(PrepareTask{Task: t.ref, URIs: uris, Volumes: volumes, Sandbox: c.taskFolder(t.executor, t.ref.Task)})
	if len(uris) > 0 && t.latest.State == api.TaskStaging {
		c.setStatus(t, api.TaskStarting, api.ReasonNone, "fetching its files")
	}
}

// wants is what must be in the task's folder before it starts.
func (t *task) wants() ([]api.URI, []api.VolumeID) {
	volumes := volumesIn(t.launch.Resources)
	if command := t.launch.Task.Command; command != nil {
		return command.URIs, volumes
	}
	return nil, volumes
}

func (c *Core) taskPrepared(w TaskPrepared) {
	t := c.state.tasks[w.Task]
	switch {
	case t == nil || t.ended():
	case w.Reason != api.ReasonNone:
		c.setStatus(t, api.TaskFailed, w.Reason, w.Message)
	default:
		t.files = filesReady
		c.handOver(t)
	}
}

// handOver gives the task to its executor once both are ready. A second copy is
// ignored there, so that a session may repeat what the one before may have lost.
func (c *Core) handOver(t *task) {
	e := c.state.executors[t.executor]
	if e == nil || !e.listening() || e.order != nil || t.handed || !t.durable || t.ended() || t.kill != nil || t.files != filesReady {
		return
	}
	t.handed = true
	c.emit(HandOver{Conn: e.conn, Task: t.ref, Launch: protocol.ExecutorLaunch{
		Task: t.launch.Task, Sandbox: c.taskFolder(t.executor, t.ref.Task),
	}})
}

// Folders: SANDBOXES/FRAMEWORK/EXECUTOR, and in it tasks/TASK. Identifiers are good
// file names (api.CheckID).

// ExecutorFolder is where an executor works; its tasks' folders are below it.
func (c *Core) ExecutorFolder(ref api.ExecutorRef) string { return c.executorFolder(ref) }

func (c *Core) executorFolder(ref api.ExecutorRef) string {
	return c.config.Sandboxes + "/" + string(ref.Framework) + "/" + string(ref.Executor)
}

func (c *Core) taskFolder(ref api.ExecutorRef, task api.TaskID) string {
	return c.executorFolder(ref) + "/tasks/" + string(task)
}

// keepFramework keeps the newest copy of a framework that has something here (R21).
func (c *Core) keepFramework(f api.Framework) {
	known := c.state.frameworks[f.ID]
	if known == nil || !sameFramework(known.Framework, f) {
		c.put(FrameworkKept{f})
	}
}

func sameFramework(a, b api.Framework) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Principal == b.Principal && slices.Equal(a.Roles, b.Roles) &&
		a.FailoverTimeout == b.FailoverTimeout && a.Standby == b.Standby && a.Constraint == b.Constraint &&
		a.MinOffer.Equal(b.MinOffer) && a.MaxOffer.Equal(b.MaxOffer) && a.Revocable == b.Revocable &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Endpoints, b.Endpoints)
}

// leaveFramework forgets the copy when nothing of the framework is left.
func (c *Core) leaveFramework(id api.FrameworkID) {
	if f := c.state.frameworks[id]; f != nil && f.users <= 0 {
		c.put(FrameworkForgotten{id})
	}
}

// removeFramework ends all that a framework has here. Its statuses are told once and
// need no acknowledgement.
func (c *Core) removeFramework(id api.FrameworkID) {
	f := c.state.frameworks[id]
	if f == nil || f.removed {
		return
	}
	number := c.put(FrameworkRemoved{id})
	c.log("framework removed", field("framework", id))
	c.after(number, clearFramework{id})
}

func (c *Core) clearFramework(id api.FrameworkID) {
	const why = "its framework was removed"
	for _, t := range c.state.tasksInOrder() {
		switch {
		case t.ref.Framework != id:
		case t.ended() || t.handed:
			c.sendStatus(t)
		default:
			c.setStatus(t, api.TaskKilled, api.ReasonFrameworkRemoved, why)
		}
	}
	for _, e := range c.state.executorsInOrder() {
		if e.ref().Framework == id {
			c.stop(e, why)
		}
	}
	c.leaveFramework(id)
}
