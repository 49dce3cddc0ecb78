package core

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/view"
)

// tasks is what becomes of tasks from their launch to the acknowledgement of their end: statuses, reports, kills and
// what is remembered of those that are over.
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

	stubs int // of all agents
}

// launchID orders launches over all terms (R9).
type launchID struct {
	term   api.Term
	number uint64
}

func (l launchID) before(m launchID) bool {
	return cmp.Or(l.term.Compare(m.term), cmp.Compare(l.number, m.number)) < 0
}

// formerLaunch is one that its agent has DROPPED and whose end is settled: its ID may be launched there again. What the
// agent has told of it before it heard that comes with the same numbers as what it tells of the next launch.
type formerLaunch struct {
	number uint64    // of its last status
	at     time.Time // when the agent made that
}

// formerLaunchesMax bounds those that are remembered of an agent; beyond it all are forgotten.
const formerLaunchesMax = 1000

// has says whether the status was told of this launch, and not of the next.
func (f formerLaunch) has(status api.Status) bool {
	return status.Number <= f.number && !status.At.After(f.at)
}

// rememberFormer notes a launch whose ID may be used again.
func (t *task) rememberFormer() {
	a := t.agent
	if t.duplicate || t.number == 0 || t.status.State != api.TaskDropped {
		return
	}
	if a.former == nil || len(a.former) >= formerLaunchesMax {
		a.former = make(map[api.TaskRef]formerLaunch)
	}
	a.former[t.ref] = formerLaunch{t.number, t.status.At}
}

// takeFormer is the launch before this one of the same ID, the zero value if there is none.
func (a *agent) takeFormer(ref api.TaskRef) formerLaunch {
	former := a.former[ref]
	delete(a.former, ref)
	return former
}

// task is a task that runs, may run, or whose end is not acknowledged yet.
type task struct {
	ref       api.TaskRef
	task      api.Task
	framework *framework
	agent     *agent
	role      api.Role
	resources api.Resources // as carved, with labels
	launch    launchID
	launched  time.Time

	status api.Status // the latest
	number uint64     // of the latest that its agent has made
	held   bool       // its resources are in the books
	runs   time.Time  // when a sample first came with it RUNNING; zero before
	// duplicate: another agent has the first launch of this ID. This one is killed and
	// its statuses concern nobody (R9).
	duplicate bool
	// proven: its secrets are those that a leader has launched it with.
	proven bool
	former formerLaunch // of the same ID on the same agent

	kill    *kill       // its end, if that was asked for
	waiters []RequestID // operators who wait for the agent to take the kill
}

// claim is the task as the policy counts it.
func (t *task) claim() allocator.Claim {
	return allocator.Claim{Framework: t.ref.Framework, Role: t.role, Agent: t.agent.id, Resources: t.resources, Task: t.ref.Task, Since: t.launched,
		Group: t.task.Group}
}

// releaseTask gives the task's resources back, once.
func (r *tasks) releaseTask(t *task) {
	if !t.held {
		return
	}
	t.held = false
	r.usage.endUse(t)
	t.agent.Unuse(t.resources)
	t.framework.release(t.role, t.resources)
	r.offers.giveBack(t.claim())
	if !t.agent.phase.Dead() {
		r.standing.restate(t.agent)
	}
}

// moveTask records a step that the leader itself makes.
func (r *tasks) moveTask(t *task, status api.Status) {
	status.Framework, status.Task, status.Agent = t.ref.Framework, t.ref.Task, t.agent.id
	status.Executor, status.Source, status.At = t.task.ExecutorID(), api.MoverMaster, r.now
	t.status = status
	if status.State.Terminal() {
		r.kills.killOver(t)
	}
	r.info("task "+strings.ToLower(status.State.String()), field("task", t.ref.String()), field("agent", t.agent.id),
		field("reason", status.Reason.String()), field("why", status.Message))
}

// endTask ends a task by the leader's own word: its framework is told once, and the task is forgotten.
func (r *tasks) endTask(t *task, status api.Status) {
	r.releaseTask(t)
	r.moveTask(t, status)
	r.tellStatus(t.framework, t.status)
	r.forgetTask(t)
}

// forgetTask drops a task when all whom its end concerns know of it.
func (r *tasks) forgetTask(t *task) {
	r.releaseTask(t)
	r.kills.killOver(t)
	if t.agent.tasks[t.ref] != t {
		return // forgotten before
	}
	delete(t.agent.tasks, t.ref)
	t.rememberFormer()
	if t.duplicate {
		t.framework.unlisted--
	}
	if t.framework.tasks[t.ref.Task] == t {
		delete(t.framework.tasks, t.ref.Task)
		t.framework.share.Take(view.Tally{Tasks: 1})
		r.remember(t.agent, protocol.TaskStub{TaskRef: t.ref, Name: t.task.Name, Role: t.role, Status: t.status, LaunchedAt: t.launched})
	}
	r.frameworks.forgetRemoved(t.framework)
	r.maintenance.checkDrained(t.agent)
}

// remember keeps a task's end for those who ask for it (R15).
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

// standAside makes way for another launch of the same ID: nobody is told of this one any more.
func (t *task) standAside() {
	t.duplicate = true
	t.framework.unlisted++
}

// duplicate kills the later of two launches of one ID (R9).
func (r *tasks) duplicate(t *task) {
	t.standAside()
	r.info("task killed", field("task", t.ref.String()), field("agent", t.agent.id), field("why", "another agent has the first launch of this ID"))
	r.kills.wishKill(t, 0, api.ReasonTaskDuplicate)
}

// sortedKeys lists the keys of a map in order.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// secretsNeeded answers an agent that is about to start a task which names secrets. The shell opens those that it is
// sent: this core holds no value. (R48)
func (r *tasks) secretsNeeded(a *agent, call protocol.NeedSecrets) {
	t := a.tasks[call.TaskRef]
	why := "the leader knows of no such task there that has these secrets and is still to start"
	switch {
	case t == nil || a.report != nil || !t.startsWithSecrets():
		r.refuseVoice(a, "the secrets of task "+call.String())
	case t.framework.removed:
		why = "its framework was removed"
	default:
		why = secrets.Withheld(r.registry, r.keepsSecrets(), t.framework.info, t.task.Secrets)
	}
	if why == "" {
		r.emit(SendSecrets{Conn: a.link.conn, Session: a.session, Task: call.TaskRef, Secrets: secrets.Take(r.registry, t.task.Secrets)})
		return
	}
	r.info("secrets refused", field("task", call.String()), field("agent", a.id), field("why", why))
	r.tellAgent(a, protocol.TaskSecrets{TaskRef: call.TaskRef, Why: why})
}

// startsWithSecrets says whether a leader has launched the task with secrets and it has not run yet, as far as is known.
func (t *task) startsWithSecrets() bool {
	return t.proven && !t.duplicate && len(t.task.Secrets) > 0 && t.status.State <= api.TaskStarting
}

// statusUpdate takes a status from an agent: it comes again until it is acknowledged.
func (r *tasks) statusUpdate(a *agent, status api.Status) {
	if !a.phase.Reported() {
		return // comes again
	}
	status = withoutPlace(status)
	status.Agent = a.id
	ref := status.Ref()
	t := a.tasks[ref]
	switch {
	case t == nil && status.Number > 0:
		r.strayStatus(a, status)
		return
	case t == nil: // it refuses a launch that is over; nobody waits for that
		return
	case status.Number == 0:
		r.endUnmadeLaunch(t, status)
		return
	case t.number == 0 && t.former.has(status): // its acknowledgement is on its way, before the launch
		return
	}
	if status.Number > t.number && !r.step(t, status) {
		r.acknowledge(a, ref, status.Number) // it can never be handled, so it need not come again
		return
	}
	switch {
	case t.duplicate || t.framework.removed:
		r.acknowledge(a, ref, status.Number)
		if t.status.State.Terminal() {
			r.forgetTask(t)
		}
	default:
		r.tellStatus(t.framework, t.placed(status))
	}
}

// placed adds to a status where the task is and how it is reached. For an end nobody needs that.
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

// withoutPlace is the status without what the leader knows itself and need not keep twice.
func withoutPlace(status api.Status) api.Status {
	status.Whereabouts = api.Whereabouts{}
	return status
}

// endUnmadeLaunch ends a launch that the agent has refused before it had a task (R9). Such a refusal has no number, is
// not acknowledged and never comes again: the agent's next status of this ID is about another launch.
func (r *tasks) endUnmadeLaunch(t *task, status api.Status) {
	if t.number > 0 || !status.State.Terminal() || !r.step(t, status) {
		return
	}
	if !t.duplicate && !t.framework.removed {
		r.tellStatus(t.framework, status)
	}
	r.forgetTask(t)
}

// step moves the task along the table; false when the table says no.
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
	t.status = status
	if r.config.Debug {
		r.debug("task status", field("task", t.ref.String()), field("agent", t.agent.id), field("state", status.State.String()))
	}
	if status.Reason == api.ReasonRevoked { // what was offered was too much
		r.usage.closeGap(t.agent, "its tasks need what was offered as revocable")
	}
	if status.State.Terminal() { // R27: free at the end, not at its acknowledgement
		r.releaseTask(t)
		r.kills.killOver(t)
	}
	return true
}

// strayStatus handles a status of a task that the leader does not know: its end was
// acknowledged but the agent has not heard so, or its framework is no more.
func (r *tasks) strayStatus(a *agent, status api.Status) {
	fw := r.frameworkByID[status.Framework]
	if fw == nil || fw.removed {
		r.strays++
		r.acknowledge(a, status.Ref(), status.Number)
		return
	}
	// R9: it never overwrites the first one's. R40: nor is it told of a task that this agent
	// does not have; its report named all that it has.
	r.refuseVoice(a, "a status of task "+status.Ref().String())
	r.acknowledge(a, status.Ref(), status.Number)
}

func (r *tasks) acknowledge(a *agent, ref api.TaskRef, number uint64) {
	if number > 0 {
		r.tellAgent(a, protocol.AcknowledgeStatus{TaskRef: ref, Number: number})
	}
}

// acknowledged passes a scheduler's acknowledgement on to the agent. With that of a terminal status the task can be
// forgotten. An agent whose report is not in yet is told nothing: it would forget a task that its report has named, which
// nobody would ever settle. It tells the status again, and so does the leader.
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
			r.forgetTask(t)
		}
	}
}

// tellStatus sends a status to the framework, if it listens. If not, it comes again
// from the agent, or is told when the framework is back (R8).
func (r *tasks) tellStatus(fw *framework, status api.Status) {
	r.tell(fw, protocol.Update{Status: status})
}

// tellTask has the framework told the task's state, as it will be when its turn comes. The reason replaces the status's
// own, which the agent tells itself.
func (r *answers) tellTask(t *task, reason api.Reason) {
	if t.framework.session == nil || t.duplicate {
		return
	}
	r.owe(t.framework.session, question{task: t.ref.Task, agent: t.agent.id, known: true, reason: reason})
}

// sendAgain has the agent send at once what the task's framework has not acknowledged, if that is more than what the
// leader tells: the session that begins hears all of it, in order.
func (r *answers) sendAgain(t *task) {
	if t != nil && t.status.Previous > 0 {
		r.tellAgent(t.agent, protocol.SendAgain{TaskRef: t.ref})
	}
}

// toldStatus is how a known task is told without being a step in its life. An end that
// is not acknowledged is told as it is: it can be acknowledged at once, by who knows what came before it.
func toldStatus(t *task, reason api.Reason) api.Status {
	status := t.status
	if status.State == api.TaskUnreachable && reason != api.ReasonReconciliation {
		return status
	}
	if status.State.Terminal() && (reason != api.ReasonReconciliation || status.Previous > 0) {
		return status
	}
	status.Number, status.Previous = 0, 0
	status.Reason = reason
	if reason == api.ReasonNone {
		status.Reason = api.ReasonReconciliation
	}
	return status
}
