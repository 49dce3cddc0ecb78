package core

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/accounting"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/view"
)

// tasks follows tasks from their launch until their end is acknowledged: statuses, reports, kills, and what is
// remembered of tasks that have ended.
type tasks struct {
	*base
	standing    *standing
	offers      *offers
	kills       *kills
	usage       *usage
	answers     *answers
	maintenance *maintenance
	frameworks  *frameworks
	executors   *executors

	stubs int // how many stubs all agents have together
}

// task is a task that runs, may run, or whose end is not acknowledged yet.
type task struct {
	ref       api.TaskRef
	name      string
	task      *api.Task // without ID and name, so that tasks which are alike have it in common; never edited
	framework *framework
	agent     *agent
	role      api.Role
	resources api.Resources // as carved out of the offers, with labels
	launch    api.LaunchID
	launched  time.Time
	account   *accounting.Account // in which its resources are counted while they are booked
	counted   time.Time           // until when they were counted before

	status status
	number uint64    // the number of the latest status that its agent has made
	held   bool      // its resources are booked
	runs   time.Time // when the first sample arrived while it was RUNNING; zero before
	// duplicate: another agent has the first launch of this ID. This launch is killed, and nobody is told its statuses
	// (R9).
	duplicate bool
	// proven: its secrets are certainly those with which a leader has launched it.
	proven bool

	kill *kill // the kill that was asked for; nil if there is none
}

// whole returns the task as its framework has described it.
func (t *task) whole() api.Task {
	whole := *t.task
	whole.ID, whole.Name = t.ref.Task, t.name
	return whole
}

// status is what a task's latest status says. What its task knows, too, is not kept twice.
type status struct {
	State            api.TaskState
	Reason           api.Reason
	Source           api.Mover
	Number, Previous uint64
	At               time.Time
	whole            *api.Status // nil: it says no more than that
}

// latest returns the latest status of the task.
func (t *task) latest() api.Status {
	if t.status.whole != nil {
		whole := *t.status.whole
		whole.Previous = t.status.Previous
		return whole
	}
	return api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: t.agent.id, Executor: t.task.ExecutorID(), Launch: t.launch,
		State: t.status.State, Reason: t.status.Reason, Source: t.status.Source, Number: t.status.Number, Previous: t.status.Previous, At: t.status.At,
	}
}

// saysMore reports whether a status says anything that the task does not know and that type status has no field for.
func (t *task) saysMore(s *api.Status) bool {
	return s.Message != "" || s.Data != nil || s.ExitCode != nil || s.Healthy != nil || s.Output != nil || s.Image != "" || s.GPUs != nil ||
		s.Hostname != "" || s.Region != "" || s.Zone != "" || s.Labels != nil || s.Ports != nil ||
		s.Ref() != t.ref || s.Agent != t.agent.id || s.Executor != t.task.ExecutorID() || s.Launch != t.launch
}

// claim returns the task as the policy counts it.
func (t *task) claim() allocator.Claim {
	return allocator.Claim{Framework: t.ref.Framework, Role: t.role, Agent: t.agent.id, Resources: t.resources, Task: t.ref.Task, Since: t.launched,
		Group: t.task.Group}
}

// releaseTask gives the task's resources back, unless that has happened before.
func (r *tasks) releaseTask(t *task) {
	if !t.held {
		return
	}
	t.held, t.counted = false, r.now
	r.accounts.Release(t.account, t.resources, r.now)
	r.noteTask(t, change.Figures, "", api.ReasonNone)
	r.usage.endUse(t)
	t.agent.Unuse(t.resources)
	t.framework.releaseTask(t)
	r.offers.giveBack(t.claim())
	if !t.agent.phase.Dead() {
		r.standing.restate(t.agent)
	}
}

// moveTask records a status that the leader itself makes.
func (r *tasks) moveTask(t *task, status api.Status) {
	status.Framework, status.Task, status.Agent = t.ref.Framework, t.ref.Task, t.agent.id
	status.Executor, status.Launch, status.Source, status.At = t.task.ExecutorID(), t.launch, api.MoverMaster, r.now
	t.become(status)
	if status.State.Terminal() {
		r.kills.killOver(t)
		r.countEnd(t)
	}
	r.noteStatus(t)
	r.info("task "+strings.ToLower(status.State.String()), field("task", t.ref.String()), field("agent", t.agent.id),
		field("reason", status.Reason.String()), field("why", status.Message))
}

// endTask ends a task by a decision of the leader. Its framework is told once, and the task is forgotten.
func (r *tasks) endTask(t *task, status api.Status) {
	r.releaseTask(t)
	r.moveTask(t, status)
	r.tellStatus(t.framework, t.latest())
	r.forgetTask(t)
}

// forgetTask removes a task whose end needs to be told to nobody any more.
func (r *tasks) forgetTask(t *task) {
	r.releaseTask(t)
	r.kills.killOver(t)
	if t.agent.tasks[t.ref] != t {
		return // it was forgotten before
	}
	t.agent.dropTask(t)
	r.noteTask(t, change.Figures, "", api.ReasonNone)
	if t.duplicate {
		t.framework.unlisted--
	}
	if t.framework.tasks[t.ref.Task] == t {
		delete(t.framework.tasks, t.ref.Task)
		t.framework.share.Take(view.Tally{Tasks: 1})
		r.remember(t.agent, protocol.TaskStub{TaskRef: t.ref, Name: t.name, Role: t.role, Owner: t.task.Owner, Status: t.latest(), LaunchedAt: t.launched})
	}
	r.frameworks.forgetRemoved(t.framework)
	r.maintenance.checkDrained(t.agent)
}

// dropStubs no longer counts the stubs of an agent that is forgotten.
func (r *tasks) dropStubs(a *agent) { r.stubs -= len(a.stubs) }

// remember keeps the end of a task as a stub for those who ask for it (R15).
func (r *tasks) remember(a *agent, stub protocol.TaskStub) {
	if len(a.stubs) >= stubsPerAgentMax || r.stubs >= stubsMax {
		if len(a.stubs) == 0 {
			return
		}
		a.stubs = a.stubs[1:]
		r.stubs--
	}
	stub.Status.Data = nil
	a.stubs = append(a.stubs, stub)
	r.stubs++
}

// standAside makes way for another launch of the same ID. From now on nobody is told about this launch.
func (t *task) standAside() {
	t.duplicate = true
	t.framework.unlisted++
}

// duplicate kills the later of two launches of the same ID (R9).
func (r *tasks) duplicate(t *task) {
	t.standAside()
	r.info("task killed", field("task", t.ref.String()), field("agent", t.agent.id), field("why", "another agent has the first launch of this ID"))
	r.kills.wishKill(t, 0, api.ReasonTaskDuplicate)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// secretsNeeded answers an agent that is about to start a task which names secrets. The shell unseals the values, so
// the core never holds one. (R48)
func (r *tasks) secretsNeeded(a *agent, call protocol.NeedSecrets) {
	t := a.tasks[call.TaskRef]
	why := "the leader knows of no such task there that has these secrets and is still to start"
	switch {
	case t == nil || a.report != nil || !t.startsWithSecrets():
		r.refuseVoice(a, "the secrets of task "+call.String())
	case t.framework.removed:
		why = "its framework was removed"
	default:
		why = secrets.Withheld(r.registry, r.keepsSecrets(), t.framework.info, t.role, t.task.Secrets)
	}
	if why == "" {
		r.emit(SendSecrets{Conn: a.link.conn, Session: a.session, Task: call.TaskRef, Secrets: secrets.Take(r.registry, t.task.Secrets)})
		return
	}
	r.info("secrets refused", field("task", call.String()), field("agent", a.id), field("why", why))
	r.tellAgent(a, protocol.TaskSecrets{TaskRef: call.TaskRef, Why: why})
}

// startsWithSecrets reports whether a leader has launched the task with secrets and, as far as is known, it has not run
// yet.
func (t *task) startsWithSecrets() bool {
	return t.proven && !t.duplicate && len(t.task.Secrets) > 0 && t.status.State <= api.TaskStarting
}

// statusUpdate handles a status from an agent. The agent repeats it until it is acknowledged.
func (r *tasks) statusUpdate(a *agent, status api.Status) {
	if !a.phase.Reported() {
		return // the agent sends it again
	}
	status = withoutPlace(status)
	status.Agent = a.id
	ref := status.Ref()
	t := a.tasks[ref]
	switch {
	case t == nil && status.Number > 0:
		r.strayStatus(a, status)
		return
	case t == nil: // the agent refuses a launch that is over; nobody waits for that
		return
	// A former launch of this ID was DROPPED. The acknowledgement of that is on the way to the agent, ahead of the launch.
	case status.Launch != t.launch:
		return
	case status.Number == 0:
		r.endUnmadeLaunch(t, status)
		return
	}
	if status.Number > t.number && !r.step(t, status) {
		r.acknowledge(a, ref, status.Number) // it can never be handled, so it must not come again
		return
	}
	switch {
	case t.duplicate || t.framework.removed:
		r.acknowledge(a, ref, status.Number)
		if t.status.State.Terminal() {
			r.settleTask(t)
		}
	default:
		r.tellStatus(t.framework, t.placed(status))
	}
}

// placed adds to a status where the task runs and how it can be reached. The end of a task does not need that.
func (t *task) placed(status api.Status) api.Status {
	if status.State.Terminal() {
		return status
	}
	info := t.agent.info
	status.Whereabouts = api.Whereabouts{
		Hostname: info.Hostname, Region: info.Region, Zone: info.Zone, Labels: t.task.Labels, Ports: t.task.Ports,
	}
	return status
}

// withoutPlace removes from a status what the leader knows itself.
func withoutPlace(status api.Status) api.Status {
	status.Whereabouts = api.Whereabouts{}
	return status
}

// endUnmadeLaunch ends a launch that the agent has refused without making a task (R9). Such a refusal has no number, is
// not acknowledged and is never repeated. The agent's next status of this ID is about another launch.
func (r *tasks) endUnmadeLaunch(t *task, status api.Status) {
	if t.number > 0 || !status.State.Terminal() || !r.step(t, status) {
		return
	}
	if !t.duplicate && !t.framework.removed {
		r.tellStatus(t.framework, status)
	}
	r.forgetTask(t)
}

// step moves the task along the table of legal moves; it returns false when the move is not legal.
func (r *tasks) step(t *task, status api.Status) bool {
	by := status.Source
	if by != api.MoverExecutor {
		by = api.MoverAgent
	}
	if !api.MayMove(t.status.State, status.State, by) {
		r.info("status refused", field("task", t.ref.String()), field("agent", t.agent.id),
			field("why", t.status.State.String()+" may not become "+status.State.String()))
		return false
	}
	if t.status.State == api.TaskStaging && (status.State == api.TaskDropped || status.State == api.TaskError) {
		r.executors.neverStarted(t)
	}
	t.number = status.Number
	status.Framework, status.Task = t.ref.Framework, t.ref.Task // the same, once in memory
	t.become(status)
	r.countEnd(t)
	r.noteStatus(t)
	if r.config.Debug {
		r.debug("task status", field("task", t.ref.String()), field("agent", t.agent.id), field("state", status.State.String()))
	}
	if status.Reason == api.ReasonRevoked { // more was offered as revocable than was really unused
		r.usage.closeGap(t.agent, "its tasks need what was offered as revocable")
	}
	if status.State.Terminal() { // R27: resources are free at the end, not at its acknowledgement
		r.releaseTask(t)
		r.kills.killOver(t)
		r.maintenance.checkDrained(t.agent) // its framework may be one for whose acknowledgement no drain waits (R67)
	}
	return true
}

// An agent sends a status again until it hears the acknowledgement: after a second, and then after twice as long each
// time. So where the leader or its stream was slow, copies of what a task said last come when its end is long settled.
// An agent that was charged for them as for lies was read later and later, and so sent ever more of them.
const (
	// copiesPerTask is how many statuses may come again once a task is settled, each of three four times. They need not
	// be of that task: which ones have ended is not remembered.
	copiesPerTask = 12
	// copiesMax bounds them for all tasks of an agent, which may have told 8,192 and heard no acknowledgement yet.
	copiesMax = copiesPerTask * 8192
)

// settleTask forgets a task when its agent is told that its end is acknowledged.
func (r *tasks) settleTask(t *task) {
	if l := t.agent.link; l != nil {
		l.copies = min(l.copies+copiesPerTask, copiesMax)
	}
	r.forgetTask(t)
}

// strayStatus handles a status of a task that the agent does not have, as far as the leader knows. Either it is a copy,
// because the agent does not know yet that the task's end was acknowledged, or the framework is gone, or it is invented.
// It never overwrites that of the first launch (R9), and nobody is told of it, because the agent's report has named all
// that it has (R40).
func (r *tasks) strayStatus(a *agent, status api.Status) {
	switch fw := r.frameworkByID[status.Framework]; {
	case a.link.copies > 0:
		a.link.copies--
	case fw == nil || fw.removed:
		r.vain.strays++
	default:
		r.refuseVoice(a, "a status of task "+status.Ref().String())
	}
	r.acknowledge(a, status.Ref(), status.Number)
}

func (r *tasks) acknowledge(a *agent, ref api.TaskRef, number uint64) {
	if number > 0 {
		r.tellAgent(a, protocol.AcknowledgeStatus{TaskRef: ref, Number: number})
	}
}

// acknowledged passes a scheduler's acknowledgements on to the agents. When a terminal status is acknowledged, the task
// is forgotten. An agent whose report is not complete is told nothing: it would forget a task that its report has
// named, and nobody would ever settle that task. The agent sends the status again, and the leader tells it again.
func (r *tasks) acknowledged(s *session, items []protocol.Acknowledgement) {
	for _, item := range items {
		ref := api.TaskRef{Framework: s.framework.id, Task: item.Task}
		a := r.agentByID[item.Agent]
		if a == nil {
			continue
		}
		if a.phase.Reported() {
			r.acknowledge(a, ref, item.Number)
		}
		t := a.tasks[ref]
		if t != nil && item.Number >= t.status.Previous {
			t.status.Previous = 0
		}
		if t != nil && !t.duplicate && t.status.State.Terminal() && item.Number >= t.number {
			r.settleTask(t)
		}
	}
}

// tellStatus sends a status to the framework, if it is connected. Otherwise the agent sends the status again, or the
// framework is told when it is back (R8).
func (r *tasks) tellStatus(fw *framework, status api.Status) {
	r.tell(fw, protocol.Update{Status: status})
}

// tellTask queues the task's state to be told to its framework, as it is when its turn comes. The reason replaces that
// of the status, which the agent tells itself.
func (r *answers) tellTask(t *task, reason api.Reason) {
	if t.framework.session == nil || t.duplicate {
		return
	}
	r.owe(t.framework.session, question{task: t.ref.Task, agent: t.agent.id, known: true, reason: reason})
}

// sendAgain has the agent repeat at once what the task's framework has not acknowledged, if that is more than the
// latest status. So a session that begins hears all of it, in order.
func (r *answers) sendAgain(t *task) {
	if t != nil && t.status.Previous > 0 {
		r.tellAgent(t.agent, protocol.SendAgain{TaskRef: t.ref})
	}
}

// toldStatus returns the status with which a known task is told when no step in its life has happened. An end that is
// not acknowledged is told as the agent reported it, so that a scheduler that knows what came before can acknowledge it
// at once.
func toldStatus(t *task, reason api.Reason) api.Status {
	status := t.latest()
	if status.State == api.TaskUnreachable && reason != api.ReasonReconciliation {
		return status
	}
	if status.State.Terminal() && (reason != api.ReasonReconciliation || status.Previous > 0) {
		return status
	}
	status.Number, status.Previous = 0, 0
	if status.State.Terminal() && status.Source != api.MoverMaster {
		return status // its reason says whose fault the end was (R59)
	}
	status.Reason = reason
	if reason == api.ReasonNone {
		status.Reason = api.ReasonReconciliation
	}
	return status
}
