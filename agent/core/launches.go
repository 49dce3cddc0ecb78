package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// launches is the room of the tasks that are to run. It decides whether a launch is accepted (R9), has the task's files
// prepared, and hands the task to its executor. Other rooms handle the task after that.
type launches struct {
	*base
	leader    *leader
	reports   *reports
	pressure  *pressure
	statuses  *statuses
	executors *executors
	sandboxes *sandboxes
}

// launchTask accepts a launch or refuses it. An accepted task is recorded, gets an executor, and is then handed over.
func (la *launches) launchTask(e protocol.LaunchTask) {
	record := la.recordOf(e)
	t := newTask(record, la.state.identity.Agent)
	if la.dropUnnamed(t) || la.refuseKnown(t) {
		return
	}
	if no := la.judgeLaunch(t, record.ExecutorResources, t); no.reason != api.ReasonNone {
		la.refuseLaunch(t, no)
		return
	}
	la.takeOn(record, e.Framework)
}

// recordOf returns the record of a launch.
func (la *launches) recordOf(e protocol.LaunchTask) TaskLaunched {
	return TaskLaunched{
		Task: e.Task, Framework: e.Framework.ID, Role: e.Role, Resources: e.Resources, ExecutorResources: e.ExecutorResources,
		Term: la.state.identity.Term, Number: e.Number, Receipt: e.Receipt, ExecutorReceipt: e.ExecutorReceipt, At: la.now,
	}
}

// takeOn makes the task of a launch that is accepted. What is left of a task of this ID that was DROPPED goes before that,
// so that the two are never taken for each other.
func (la *launches) takeOn(record TaskLaunched, framework api.Framework) {
	ref := api.TaskRef{Framework: record.Framework, Task: record.Task.ID}
	former, was := la.sandboxes.makeWay(ref)
	la.keepFramework(framework)
	record.GPUs = la.chooseGPUs(int(record.Resources.Scalar(api.GPUs) / 1000))
	number := la.writeRecord(record)
	t := la.state.tasks[ref]
	if t.revocable() {
		la.pressure.watchPressure()
	}
	t.launchRecord = number
	la.follow(number, handOverTask{t.taskLaunch()})
	la.executors.placeTask(t)
	if was {
		la.sandboxes.sweepFolder(former)
	}
}

// verdict is the state, the reason and the message of a launch that is refused. Without a reason the launch is
// accepted.
type verdict struct {
	state  api.TaskState
	reason api.Reason
	why    string
}

// judgeLaunch decides whether a launch can be accepted. starts are the resources of the executor that comes with it,
// and together are the tasks that are launched with it.
func (la *launches) judgeLaunch(t *task, starts api.Resources, together ...*task) verdict {
	if err := t.launch.Task.Check(); err != nil {
		return verdict{api.TaskError, api.ReasonTaskInvalid, err.Error()}
	}
	if why := la.config.NoImages; t.launch.Task.Image != "" && why != "" {
		return verdict{api.TaskError, api.ReasonTaskInvalid, "this agent runs no tasks in images: " + why +
			"; demand agents whose attribute isolation names images"}
	}
	if why := la.refuseUser(t); why != "" {
		return verdict{api.TaskError, api.ReasonTaskUnauthorized, why}
	}
	if why := la.lackOfGPUs(together...); why != "" {
		return verdict{api.TaskDropped, api.ReasonInvalidOffers, why}
	}
	reason, why := la.findRefusal(t, starts)
	return verdict{api.TaskDropped, reason, why}
}

// dropUnnamed drops a launch whose names are not valid. Names become folders, and a status needs them too, so the
// leader is not told; it concludes DROPPED from the task's absence (R8).
func (la *launches) dropUnnamed(t *task) bool {
	err := cmp.Or(api.CheckID("framework", string(t.ref.Framework)), api.CheckID("task", string(t.ref.Task)),
		api.CheckID("executor", string(t.executor.Executor)))
	if err != nil {
		la.log("launch dropped", field("why", err.Error()))
	}
	return err != nil
}

// refuseKnown refuses a task ID that the agent knows, and ignores a repetition of the same launch (R9). The refusal has
// no number, because the statuses of the known task go on.
func (la *launches) refuseKnown(t *task) bool {
	old := la.state.tasks[t.ref]
	if old == nil && !la.state.usedUp(t.ref) {
		return false
	}
	if old != nil && old.launch.id() == t.launch.id() {
		return true
	}
	status := t.latest
	status.State, status.Message = la.state.refusalOfKnown(t.ref)
	status.Reason, status.Source, status.At = api.ReasonTaskDuplicate, api.MoverAgent, la.now
	la.leader.tell(protocol.StatusUpdate{Status: status})
	la.log("launch refused", field("task", t.ref.String()), field("why", status.Reason.String()))
	return true
}

// refusalOfKnown is how a launch ends whose ID the agent knows: it would be refused again, unless the task that has the ID
// was DROPPED, so that trying again is fine a moment later.
func (s *state) refusalOfKnown(ref api.TaskRef) (api.TaskState, string) {
	known := s.stubbed[ref]
	if t := s.tasks[ref]; t != nil {
		known = t.latest.State
	}
	if known == api.TaskDropped {
		return known, "what was dropped of this ID before is not settled yet"
	}
	return api.TaskError, "the agent knows a task of this ID already; IDs are never used twice"
}

// refuseUser says why the task may not run as the user that it asks for; "" if it may.
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

// user returns the user that the task asks to run as.
func (t *task) user() string { return t.launch.Task.RunsAs() }

// findRefusal says why a launch can't be accepted; ReasonNone if it can.
func (la *launches) findRefusal(t *task, starts api.Resources) (api.Reason, string) {
	own := t.launch.Task.Executor
	f, e := la.state.frameworks[t.ref.Framework], la.state.executors[t.executor]
	switch {
	case f != nil && f.removed:
		return api.ReasonFrameworkRemoved, "its framework was removed and what it left is being killed"
	case la.state.identity.Draining:
		return api.ReasonAgentDraining, "the agent is being drained"
	case la.pressure.on && t.revocable():
		return api.ReasonRevoked, "the agent's tasks need what was offered as revocable"
	case la.reports.unable() != "":
		la.reports.tellUnable() // before the refusal, so that the leader does not offer at once what the refusal gives back
		return la.reports.whyUnable(), la.reports.unable()
	case own != nil && !own.Resources.IsZero() && starts.IsZero() && (e == nil || e.order != nil || e.ending()):
		// The leader believed that the executor runs, so it did not account for the executor's resources.
		return api.ReasonExecutorTerminated, "its executor ended while the launch was on its way"
	}
	return api.ReasonNone, ""
}

// refuseLaunch refuses a launch, which makes no task here. Its status has no number: it is told once and never
// repeated. The same ID may be launched again, and a repetition would then tell of the wrong launch. If the status is
// lost, the leader concludes the same from the task's absence (R8). Nothing is stored, so this needs no room on a full
// disk.
func (la *launches) refuseLaunch(t *task, no verdict) {
	status := la.statuses.newStatus(t, no.state, no.reason, no.why)
	status.Number = 0
	la.log("launch refused", field("task", t.ref.String()), field("why", no.reason.String()))
	la.leader.tell(protocol.StatusUpdate{Status: status})
}

// prepareTask has the task's files fetched and its volumes made visible in its folder. Its executor may still be
// starting meanwhile.
func (la *launches) prepareTask(t *task) {
	if t.namesSecrets() && !t.given.here {
		la.askSecrets(t)
		return
	}
	if t.wantsNothing() {
		t.files = filesReady
		return
	}
	uris, volumes := t.wants()
	if t.files != filesAbsent || t.ended() || t.kill != nil {
		return
	}
	t.files = filesComing
	la.emit(PrepareTask{
		Task: t.taskLaunch(), Image: t.launch.Task.Image, URIs: uris, Volumes: volumes, Sandbox: la.taskFolder(t.executor, t.ref.Task),
		Builtin: t.launch.Task.Executor == nil, User: t.user(), Owner: t.launch.Task.Owner, Secrets: t.secretFiles(), Ports: t.launch.Task.Ports,
		DiskMax: t.diskMax(),
	})
	switch {
	case t.latest.State != api.TaskStaging:
	case t.launch.Task.Image != "":
		la.statuses.setStatus(t, api.TaskStarting, api.ReasonNone, "pulling its image")
	case len(uris) > 0:
		la.statuses.setStatus(t, api.TaskStarting, api.ReasonNone, "fetching its files")
	}
}

// wantsNothing says whether the task needs no files, volumes, image, secret files or free ports before it starts.
func (t *task) wantsNothing() bool {
	uris, volumes := t.wants()
	return len(uris) == 0 && len(volumes) == 0 && t.launch.Task.Image == "" && len(t.secretFiles()) == 0 &&
		len(t.launch.Task.Ports) == 0
}

// wants returns the files and volumes that must be in the task's folder before it starts. The image is not among them.
func (t *task) wants() ([]api.URI, []api.VolumeID) {
	volumes := volumesIn(t.launch.Resources)
	if command := t.launch.Task.Command; command != nil {
		return command.URIs, volumes
	}
	return nil, volumes
}

// taskPrepared hands over a task whose files are ready, or ends it if they could not be made ready. If that is not the
// task's fault, as with a port that another program has (R64), it is as good as not launched and may be tried again
// (R59).
func (la *launches) taskPrepared(w TaskPrepared) {
	t := la.state.launched(w.Task)
	switch {
	case t == nil || t.ended():
	case w.Reason.Blameless():
		la.statuses.setStatus(t, api.TaskDropped, w.Reason, w.Message)
	case w.Reason != api.ReasonNone:
		la.statuses.setStatus(t, api.TaskFailed, w.Reason, w.Message)
	default:
		t.files, t.pulled = filesReady, w.Image
		la.handOverTask(t)
	}
}

// handOverTask gives the task to its executor once both are ready. A task of a group is given together with the others,
// once all of them are ready (R46). The executor ignores a repetition, so a new session may repeat what the previous
// one may have lost.
func (la *launches) handOverTask(t *task) {
	e := la.state.executors[t.executor]
	if e == nil || !e.listening() || e.order != nil {
		return
	}
	together := la.state.together(t)
	for _, member := range together {
		if !member.handed && !member.ended() && !la.canStart(member) {
			return
		}
	}
	for _, member := range together {
		if member.handed || member.ended() {
			continue
		}
		member.handed = true
		la.emit(HandOver{Conn: e.conn, Task: member.taskLaunch(), Launch: protocol.ExecutorLaunch{
			Task: member.launch.Task, Sandbox: la.taskFolder(member.executor, member.ref.Task), Shared: la.sharedFolder(member),
			GPUs: la.gpusOf(member),
		}})
	}
}

// canStart says whether the task has all that it needs to start and is not being killed.
func (la *launches) canStart(t *task) bool {
	return t.kill == nil && la.disk.safe(t.launchRecord) && t.files == filesReady && (t.given.here || !t.namesSecrets())
}

// keepFramework keeps the newest copy of a framework that has something here (R21).
func (la *launches) keepFramework(f api.Framework) {
	known := la.state.frameworks[f.ID]
	if known == nil || !known.Framework.Equal(&f) {
		la.writeRecord(FrameworkKept{f})
	}
}

// Secrets of a task are asked for when it is about to start, once in each session in which that is so (R48). This core
// never holds a value. The shell keeps the values until the executor has the task, and no longer.

// given says how far a task's secrets have come. Both fields belong to this process; the next one asks again.
type given struct {
	asked Conn // the session in which they were asked for; 0 = in none
	here  bool // the shell has the values
}

// namesSecrets says whether the task asks for any secrets.
func (t *task) namesSecrets() bool { return len(t.launch.Task.Secrets) > 0 }

// secretFiles returns the task's secrets that are files.
func (t *task) secretFiles() []api.Secret {
	var files []api.Secret
	for _, secret := range t.launch.Task.Secrets {
		if secret.File != "" {
			files = append(files, secret)
		}
	}
	return files
}

// askSecrets asks the leader for the secrets of a task, once a session.
func (la *launches) askSecrets(t *task) {
	if t.ended() || t.kill != nil || !la.leader.registered || t.given.asked == la.leader.conn {
		return
	}
	t.given.asked = la.leader.conn
	la.leader.tell(protocol.NeedSecrets{TaskRef: t.ref})
}

// askSecretsAgain asks a new leader for secrets that the agent still lacks: an earlier leader did not answer, or there
// was none to ask.
func (la *launches) askSecretsAgain() {
	for _, t := range la.state.tasksInOrder() {
		if t.namesSecrets() && !t.given.here && !t.handed && la.disk.safe(t.launchRecord) {
			la.askSecrets(t)
		}
	}
}

// takeSecrets goes on with a task whose secrets have arrived, or ends it if it can't have them.
func (la *launches) takeSecrets(e protocol.TaskSecrets) {
	t := la.state.tasks[e.TaskRef]
	switch {
	case t == nil || t.ended() || t.handed || t.given.here || t.given.asked != la.leader.conn:
		la.emit(DropSecrets{e.TaskRef})
	case e.Why != "":
		la.statuses.setStatus(t, api.TaskFailed, api.ReasonSecretUnavailable, e.Why)
	default:
		t.given.here = true
		la.prepareTask(t)
		la.handOverTask(t)
	}
}
