package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// launches is the room of the tasks that are to run: whether a launch is taken on (R9), its files, and the handing over
// to its executor. What becomes of a task afterwards is not its business.
type launches struct {
	*base
	leader    *leader
	reports   *reports
	pressure  *pressure
	statuses  *statuses
	executors *executors
}

// launchTask takes a task on: its record, then its executor, then the handing over.
func (la *launches) launchTask(e protocol.LaunchTask) {
	record := TaskLaunched{
		Task: e.Task, Framework: e.Framework.ID, Role: e.Role, Resources: e.Resources, ExecutorResources: e.ExecutorResources,
		Term: la.state.identity.Term, Number: e.Number, Receipt: e.Receipt, At: la.now,
	}
	t := newTask(record, la.state.identity.Agent)
	if la.dropNameless(t) || la.refuseKnown(t) {
		return
	}
	if err := e.Task.Check(); err != nil {
		la.refuseLaunch(t, api.TaskError, api.ReasonTaskInvalid, err.Error())
		return
	}
	if why := la.refuseUser(t); why != "" {
		la.refuseLaunch(t, api.TaskError, api.ReasonTaskUnauthorized, why)
		return
	}
	if reason, why := la.findRefusal(t, e.Task.Executor); reason != api.ReasonNone {
		la.refuseLaunch(t, api.TaskDropped, reason, why)
		return
	}
	la.keepFramework(e.Framework)
	number := la.writeRecord(record)
	t = la.state.tasks[t.ref]
	if t.revocable() {
		la.pressure.watchPressure()
	}
	t.launchRecord = number
	la.follow(number, handOverTask{t.launchID()})
	la.executors.placeTask(t)
}

// dropNameless drops a launch whose names are none: they become folders, and there is
// nobody to tell. The leader concludes DROPPED from its absence (R8).
func (la *launches) dropNameless(t *task) bool {
	err := cmp.Or(api.CheckID("framework", string(t.ref.Framework)), api.CheckID("task", string(t.ref.Task)),
		api.CheckID("executor", string(t.executor.Executor)))
	if err != nil {
		la.log("launch dropped", field("why", err.Error()))
	}
	return err != nil
}

// refuseKnown refuses an ID that the agent knows, and ignores the very same launch (R9).
// The refusal has no number: the ID's own statuses go on.
func (la *launches) refuseKnown(t *task) bool {
	old := la.state.tasks[t.ref]
	_, stubbed := la.state.stubbed[t.ref]
	if old == nil && !stubbed {
		return false
	}
	if old != nil && old.launch.Term == t.launch.Term && old.launch.Number == t.launch.Number {
		return true
	}
	status := t.latest
	status.State, status.Reason, status.Source, status.At = api.TaskDropped, api.ReasonTaskDuplicate, api.MoverAgent, la.now
	status.Message = "the agent knows a task of this ID already; IDs are never used twice"
	la.leader.tell(protocol.StatusUpdate{Status: status})
	la.log("launch refused", field("task", t.ref.String()), field("why", status.Reason.String()))
	return true
}

// refuseUser says why the task may not run as whom it asks for; "" when it may.
func (la *launches) refuseUser(t *task) string {
	user := t.user()
	if user == "" || user == la.config.TaskUser || slices.Contains(la.config.TaskUsers, user) {
		return ""
	}
	if user != "root" && slices.Contains(la.config.TaskUsers, "*") {
		return ""
	}
	if len(la.config.TaskUsers) == 0 {
		return fmt.Sprintf("it asks for the user %s, and this agent lets no task ask for one; leave the user out, or start the agent with --task-users %s",
			user, user)
	}
	return fmt.Sprintf("it asks for the user %s, and this agent allows %s; ask for one of these, or for none", user,
		strings.Join(la.config.TaskUsers, ", "))
}

// user is as whom the task asks to run. A framework's own executor and all of its tasks are one user's.
func (t *task) user() string {
	switch {
	case t.launch.Task.Executor != nil:
		return t.launch.Task.Executor.Command.User
	case t.launch.Task.Command != nil:
		return t.launch.Task.Command.User
	}
	return ""
}

// findRefusal says why a launch can't be taken on; ReasonNone when it can.
func (la *launches) findRefusal(t *task, own *api.Executor) (api.Reason, string) {
	f, e := la.state.frameworks[t.ref.Framework], la.state.executors[t.executor]
	switch {
	case f != nil && f.removed:
		return api.ReasonFrameworkRemoved, "its framework was removed and what it left is being killed"
	case la.state.identity.Draining:
		return api.ReasonAgentDraining, "the agent is being drained"
	case la.pressure.on && t.revocable():
		return api.ReasonRevoked, "the agent's tasks need what was offered as revocable"
	case la.reports.unable() != "":
		la.reports.tellUnable() // before the refusal: what it gives back is not to be offered
		return la.reports.whyUnable(), la.reports.unable()
	case own != nil && !own.Resources.IsZero() && t.launch.ExecutorResources.IsZero() && (e == nil || e.order != nil || e.ending()):
		// The leader believed that it runs, so its resources are not accounted for.
		return api.ReasonExecutorTerminated, "its executor ended while the launch was on its way"
	}
	return api.ReasonNone, ""
}

// refuseLaunch ends a launch that made no task here. Its status has no number: it is told once and
// comes never again, as the same ID may be launched anew, and a copy would then tell of the
// wrong launch. Should it be lost, the leader concludes the same from the task's absence (R8);
// nothing is stored, so a full disk needs no room for it.
func (la *launches) refuseLaunch(t *task, state api.TaskState, reason api.Reason, why string) {
	status := la.statuses.newStatus(t, state, reason, why)
	status.Number = 0
	la.log("launch refused", field("task", t.ref.String()), field("why", reason.String()))
	la.leader.tell(protocol.StatusUpdate{Status: status})
}

// prepareTask has the task's files fetched, and its volumes shown in its folder, while its
// executor may still be starting.
func (la *launches) prepareTask(t *task) {
	uris, volumes := t.wants()
	if len(uris) == 0 && len(volumes) == 0 {
		t.files = filesReady
		return
	}
	if t.files != filesAbsent || t.ended() || t.kill != nil {
		return
	}
	t.files = filesComing
	la.emit(PrepareTask{
		Task: t.ref, URIs: uris, Volumes: volumes, Sandbox: la.taskFolder(t.executor, t.ref.Task),
		Builtin: t.launch.Task.Executor == nil, User: t.user(),
	})
	if len(uris) > 0 && t.latest.State == api.TaskStaging {
		la.statuses.setStatus(t, api.TaskStarting, api.ReasonNone, "fetching its files")
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

// taskPrepared hands over a task whose files are there, or ends it for want of them.
func (la *launches) taskPrepared(w TaskPrepared) {
	t := la.state.tasks[w.Task]
	switch {
	case t == nil || t.ended():
	case w.Reason != api.ReasonNone:
		la.statuses.setStatus(t, api.TaskFailed, w.Reason, w.Message)
	default:
		t.files = filesReady
		la.handOverTask(t)
	}
}

// handOverTask gives the task to its executor once both are ready. A second copy is
// ignored there, so that a session may repeat what the one before may have lost.
func (la *launches) handOverTask(t *task) {
	e := la.state.executors[t.executor]
	wanted := !t.handed && !t.ended() && t.kill == nil
	ready := la.disk.safe(t.launchRecord) && t.files == filesReady
	if !wanted || !ready || e == nil || !e.listening() || e.order != nil {
		return
	}
	t.handed = true
	la.emit(HandOver{Conn: e.conn, Task: t.ref, Launch: protocol.ExecutorLaunch{
		Task: t.launch.Task, Sandbox: la.taskFolder(t.executor, t.ref.Task),
	}})
}

// keepFramework keeps the newest copy of a framework that has something here (R21).
func (la *launches) keepFramework(f api.Framework) {
	known := la.state.frameworks[f.ID]
	if known == nil || !known.Framework.Equal(&f) {
		la.writeRecord(FrameworkKept{f})
	}
}
