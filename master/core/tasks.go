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
	if t.duplicate {
		t.framework.duplicates--
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
	t.framework.duplicates++
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
