package core

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/core/receipts"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// Bounds of one agent's report; an agent that names more loses its stream (Limit).
const (
	reportTasksMax      = 100_000
	reportExecutorsMax  = 100_000
	reportFrameworksMax = 100_000
	reportVolumesMax    = 100_000
	// readmitMax bounds the frameworks that are readmitted from one report (R21). Further ones are treated as removed
	// until the agent reports again.
	readmitMax = 4096
	// stubsPerAgentMax bounds the ended tasks that are remembered of one agent (R15). When there are more, the oldest
	// are forgotten.
	stubsPerAgentMax = 1000
	// stubsMax bounds the stubs of all agents together. From then on an agent's new stubs replace its old ones.
	stubsMax = 200_000
)

// report gathers the pages in which an agent reports what it has (R2).
type report struct {
	tasks      []protocol.ReportedTask
	executors  []protocol.ReportedExecutor
	frameworks []api.Framework
	stubs      []protocol.TaskStub
	volumes    []protocol.Volume
	rebooted   bool
	first      bool                       // this leader has had no report of the agent before
	launched   map[api.LaunchID]time.Time // see launches
	usage      *protocol.UsageReport      // the last sample, which says nothing before the tasks are known; nil: none
}

// reportPage takes in a page of a report. Pages of another session are ignored.
func (r *agents) reportPage(a *agent, page protocol.AgentReport) {
	switch {
	case page.Session != 0 && page.Session != a.session:
		return
	// The report is complete. At its first contact an agent can have nothing to report but volumes of an earlier life.
	case a.report == nil:
		if a.phase.Reported() && len(a.orphans) == 0 {
			r.inventory.checkVolumes(a, &report{volumes: page.Volumes})
		}
		return
	}
	got := a.report
	got.tasks = append(got.tasks, page.Tasks...)
	got.executors = append(got.executors, page.Executors...)
	got.frameworks = append(got.frameworks, page.Frameworks...)
	got.stubs = append(got.stubs, page.Stubs...)
	got.volumes = append(got.volumes, page.Volumes...)
	got.rebooted = got.rebooted || page.Rebooted
	if page.Usage != nil {
		got.usage = page.Usage
	}
	if fault := got.tooMuch(); fault != nil {
		r.expelAgent(a, fault)
		return
	}
	if page.Last {
		r.reportDone(a, life.Up)
	}
}

// tooMuch says which bound the report exceeds; nil if it exceeds none. Of too many stubs it keeps only the latest.
func (r *report) tooMuch() error {
	r.stubs = r.stubs[max(len(r.stubs)-2*stubsPerAgentMax, 0):]
	if len(r.tasks) > reportTasksMax || len(r.executors) > reportExecutorsMax || len(r.frameworks) > reportFrameworksMax || len(r.volumes) > reportVolumesMax {
		return fmt.Errorf("its report names more than %d tasks, executors, frameworks or volumes", reportTasksMax)
	}
	return nil
}

// expelAgent closes the stream of an agent that went beyond a limit.
func (r *agents) expelAgent(a *agent, err error) {
	r.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Limit, a.id, err)})
	r.disconnectAgent(a, err.Error())
}

// reportDone makes the leader's picture of the agent agree with what the agent has reported (promise 7). From now on
// its resources are offered; those of a new agent are offered from its first heartbeat on.
func (r *agents) reportDone(a *agent, next life.Phase) {
	got := a.report
	got.first = a.account == life.AccountNone
	a.account = max(a.account, got.account())
	a.enter(life.Reporting) // from now on it no longer counts as dead
	// The policy may have forgotten the agent. It must know the agent before resources on it are taken.
	a.policyStale = true
	r.standing.restate(a)
	a.enter(next)
	r.setApart(a, got)
	r.readmitReported(a, got)
	r.executors.takeExecutors(a, got)
	r.tasks.takeTasks(a, got)
	r.tasks.takeStubs(a, got)
	r.inventory.checkVolumes(a, got)
	a.report = nil // everything in it was taken
	if got.usage != nil {
		r.usage.used(a, *got.usage)
	}
	r.kills.takeKept(a)
	r.tellAgent(a, protocol.Reported{})
	r.kills.resendKills(a)
	r.maintenance.resendDrain(a)
	r.hold.settleHold(a)
	if next == life.Up { // otherwise it is its first contact, and there was nothing to report
		r.info("agent reported", field("agent", a.id), field("tasks", fmt.Sprint(len(got.tasks))))
	}
	if a.Over {
		r.warn("agent holds more than it has", field("agent", a.id), field("used", a.Used.String()), field("total", a.Total.String()))
	}
	r.standing.restate(a)
	r.answers.answerQuestions(a)
	r.maintenance.checkDrained(a)
	r.inverses.askToLeave(a)
}

// receiptState says how far this leader has come with receipts, which prove that a leader has made a launch. (Protocol
// rule R40.)
type receiptState struct {
	mark  []byte // the fingerprint of its key; empty: it has no key
	asked bool   // the registry has been asked to remember mark
}

// beginReceipts has the registry remember the fingerprint of the key that signs launches from now on, or that they are
// not signed. It asks once.
func (c *Core) beginReceipts() {
	if c.receipts.asked || bytes.Equal(c.receipts.mark, c.registry.Receipts.Mark) {
		return
	}
	c.receipts.asked = true
	c.proposals.propose(registry.BeginReceipts{Mark: c.receipts.mark, Since: c.term})
}

// receiptsBegun logs since when launches carry receipts, or that they no longer do.
func (c *Core) receiptsBegun() {
	if since := c.registry.Receipts; len(since.Mark) > 0 {
		c.info("launches carry receipts", field("since", since.Since.String()))
		return
	}
	c.warn("launches carry no receipts any more", field("why", "the leader has no key of the cluster"))
}

// signs reports whether launches carry receipts: this leader has the key whose fingerprint the registry holds.
func (b *base) signs() bool {
	return len(b.receipts.mark) > 0 && bytes.Equal(b.receipts.mark, b.registry.Receipts.Mark)
}

// receiptOf returns the receipt of a launch, or "" when launches carry no receipts.
func (b *base) receiptOf(launch receipts.Launch) string {
	if !b.signs() {
		return ""
	}
	return receipts.Sign(b.config.ReceiptKey, launch)
}

// signed returns what the receipt of the task says.
func (t *task) signed() receipts.Launch {
	return receipts.Launch{
		Framework: t.ref.Framework, Task: t.ref.Task, Executor: t.task.ExecutorID(), Agent: t.agent.id, Term: t.launch.Term, Number: t.launch.Number,
		Role: t.role, Resources: t.resources, Secrets: t.task.Secrets, Owner: t.task.Owner,
	}
}

// signedExecutor returns what the receipt of the executor says that the task's launch starts with these resources.
func (t *task) signedExecutor(resources api.Resources) receipts.Launch {
	return receipts.Launch{
		Framework: t.ref.Framework, Executor: t.task.ExecutorID(), Agent: t.agent.id, Term: t.launch.Term, Number: t.launch.Number,
		Role: t.role, Resources: resources,
	}
}

// signedTask returns what the receipt of a reported task must say.
func signedTask(agent api.AgentID, rt protocol.ReportedTask) receipts.Launch {
	return receipts.Launch{
		Framework: rt.Framework, Task: rt.Task.ID, Executor: rt.Task.ExecutorID(), Agent: agent, Term: rt.Status.Launch.Term, Number: rt.Status.Launch.Number,
		Role: rt.Role, Resources: rt.Resources, Secrets: rt.Task.Secrets, Owner: rt.Task.Owner,
	}
}

// keepsSecrets says why this cluster stores no secrets; it returns secrets.Kept when it does.
func (b *base) keepsSecrets() secrets.Unkept {
	switch {
	case b.signs():
		return secrets.Kept
	case len(b.config.ReceiptKey) == 0:
		return secrets.NoKey
	}
	return secrets.NotYet
}

// isProven reports whether a reported task certainly names the secrets with which a leader has launched it. Its receipt
// covers them. The result is false for a task that names none.
func (b *base) isProven(agent api.AgentID, rt protocol.ReportedTask) bool {
	if len(rt.Task.Secrets) == 0 || !b.signs() {
		return false
	}
	return receipts.True(b.config.ReceiptKey, signedTask(agent, rt), rt.Receipt)
}

// launchedHere reports whether a leader has launched a reported task on the agent. This leader knows its own launches.
func (r *agents) launchedHere(a *agent, rt protocol.ReportedTask) bool {
	own := a.tasks[api.TaskRef{Framework: rt.Framework, Task: rt.Task.ID}]
	return own != nil && own.launch == rt.Status.Launch || r.hasReceipt(a, signedTask(a.id, rt), rt.Receipt)
}

// startedHere reports whether a leader has had the agent start a reported executor. This leader knows those that its own
// launches start.
func (r *agents) startedHere(a *agent, rx protocol.ReportedExecutor) bool {
	return a.executors[api.ExecutorRef{Framework: rx.Framework, Executor: rx.Executor.ID}] != nil || r.hasReceipt(a, receipts.Launch{
		Framework: rx.Framework, Executor: rx.Executor.ID, Agent: a.id, Term: rx.LaunchTerm, Number: rx.LaunchNumber,
		Role: rx.Role, Resources: rx.Resources,
	}, rx.Receipt)
}

// hasReceipt reports whether the agent shows the receipt of a launch, or need not show it: a launch from before there
// were receipts is believed because of its term; every launch has one.
func (r *agents) hasReceipt(a *agent, launch receipts.Launch, receipt string) bool {
	all, known, of := r.registry.Receipts, r.registry.Agents[a.id], launch.Term
	switch {
	case !r.signs():
		return true
	case of == (api.Term{}):
		return false
	// An agent that was admitted later has nothing from before.
	case !all.Since.Before(of) && !known.Admitted.After(all.Began):
		return true
	}
	return receipts.True(r.config.ReceiptKey, launch, receipt)
}

// setApart takes the tasks that no leader has launched on the agent, and the executors that none has had it start, out
// of its report. The tasks are shown to people; neither is counted or killed, and no framework is told of them (R40).
func (r *agents) setApart(a *agent, got *report) {
	a.apart = nil
	var first api.ExecutorRef
	executors := len(got.executors)
	got.executors = slices.DeleteFunc(got.executors, func(rx protocol.ReportedExecutor) bool {
		apart := !r.startedHere(a, rx)
		if apart && first == (api.ExecutorRef{}) {
			first = api.ExecutorRef{Framework: rx.Framework, Executor: rx.Executor.ID}
		}
		return apart
	})
	if executors -= len(got.executors); executors > 0 {
		r.warn("executors set apart", field("agent", a.id), field("executors", fmt.Sprint(executors)), field("first", first.String()),
			field("why", "no leader has had them started there: they show no true receipt"))
	}
	apart := 0
	got.tasks = slices.DeleteFunc(got.tasks, func(rt protocol.ReportedTask) bool {
		if r.launchedHere(a, rt) {
			return false
		}
		if apart++; apart <= stubsPerAgentMax {
			stub := protocol.TaskStub{
				TaskRef: api.TaskRef{Framework: rt.Framework, Task: rt.Task.ID}, Name: rt.Task.DisplayName(), Role: rt.Role, LaunchedAt: rt.LaunchedAt,
				Status: withoutPlace(rt.Status),
			}
			stub.Status.Message = "set apart: no leader has launched it there, as it shows no true receipt"
			a.apart = append(a.apart, stub)
		}
		return true
	})
	if apart > 0 {
		r.warn("tasks set apart", field("agent", a.id), field("tasks", fmt.Sprint(apart)), field("first", a.apart[0].TaskRef.String()),
			field("why", "no leader has launched them there: they show no true receipt"))
	}
}

// account returns how much the agent has told with this report.
func (r *report) account() life.Account {
	if r.rebooted {
		return life.AccountRebooted
	}
	return life.AccountGiven
}

// readmitReported readmits frameworks that the registry does not know, as the agent describes them (R21). It tells the
// agent which of its frameworks were removed.
func (r *agents) readmitReported(a *agent, got *report) {
	copies, something := make(map[api.FrameworkID]api.Framework), make(map[api.FrameworkID]bool)
	for _, t := range got.tasks {
		something[t.Framework] = true
	}
	for _, x := range got.executors {
		something[x.Framework] = true
	}
	for _, info := range got.frameworks {
		if _, known := r.registry.Frameworks[info.ID]; !known && !something[info.ID] {
			r.refuseVoice(a, "framework "+string(info.ID))
			continue
		}
		copies[info.ID] = info
	}
	named := func(id api.FrameworkID, role api.Role) {
		if _, ok := copies[id]; !ok && id != "" {
			copies[id] = api.Framework{ID: id, Roles: []api.Role{role}}
		}
	}
	for _, t := range got.tasks {
		named(t.Framework, t.Role)
	}
	for _, x := range got.executors {
		named(x.Framework, x.Role)
	}
	readmitted := 0
	for _, id := range sortedKeys(copies) {
		known, ok := r.registry.Frameworks[id]
		switch {
		case ok && known.Removed.IsZero():
		case ok:
			r.tellAgent(a, protocol.RemoveFramework{Framework: id})
		case api.CheckID("framework", string(id)) == nil && readmitted < readmitMax:
			readmitted++
			r.readmit(a, copies[id])
		}
	}
}

// readmit asks the registry to take a framework back. Until the registry answers, the framework counts as a
// disconnected one, so that what it uses is counted.
func (r *agents) readmit(a *agent, info api.Framework) {
	if fw := r.frameworkByID[info.ID]; fw != nil {
		return // already asked, because of another agent
	}
	fw := r.frameworks.newFramework(info.ID)
	fw.info = info
	r.frameworks.describeToPolicy(fw)
	r.frameworks.goAway(fw, "readmitted from the copy of agent "+string(a.id))
	r.info("framework readmitted", field("framework", info.ID), field("from", a.id))
	r.proposals.propose(registry.Readmit{Framework: info}, readmitFramework{fw})
}

// readmitAnswered continues when the registry has answered.
func (r *sessions) readmitAnswered(fw *framework, result registry.Result) {
	switch {
	case result.Err == nil:
	case result.Err.Kind == api.Limit: // no room for it; its tasks are counted and continue
		r.info("framework not readmitted", field("framework", fw.id), field("why", result.Err.Error()))
	default:
		r.keepUntilEmpty(fw, result.Err.Error())
	}
}

// takeTasks compares the reported tasks with the known ones, one by one.
func (r *tasks) takeTasks(a *agent, got *report) {
	reported := make(map[api.TaskRef]bool, len(got.tasks))
	for _, rt := range got.tasks {
		ref := api.TaskRef{Framework: rt.Framework, Task: rt.Task.ID}
		fw := r.frameworkByID[rt.Framework]
		if reported[ref] || checkReported(rt) != nil {
			r.info("reported task dropped", field("task", ref.String()), field("agent", a.id))
			continue
		}
		if t := a.tasks[ref]; t != nil && rt.Status.State == api.TaskDropped && rt.Status.Launch.Compare(t.launch) < 0 {
			// That end was settled, and the agent never got the launch that came after it.
			r.acknowledge(a, ref, rt.Status.Number)
			continue
		}
		reported[ref] = true
		if fw == nil {
			fw = r.frameworks.tombstoneOf(rt.Framework)
		}
		r.taskReported(a, fw, got, rt)
	}
	for _, t := range a.sortedTasks() {
		if !reported[t.ref] {
			r.taskMissing(a, t, got.rebooted)
		}
	}
}

func checkReported(rt protocol.ReportedTask) error {
	if err := api.CheckID("task", string(rt.Task.ID)); err != nil {
		return err
	}
	if rt.Status.State < api.TaskStaging || rt.Status.State > api.TaskGoneByOperator {
		return errors.New("its state is no agent's to report")
	}
	return rt.Resources.Check()
}

// taskReported brings what the leader knows of one task in line with the agent's report.
func (r *tasks) taskReported(a *agent, fw *framework, got *report, rt protocol.ReportedTask) {
	ref := api.TaskRef{Framework: fw.id, Task: rt.Task.ID} // each text once in memory, here and below
	t := a.tasks[ref]
	if t == nil {
		t = r.adoptTask(a, fw, ref, rt)
	}
	before := t.status
	back := before.State == api.TaskUnreachable
	// An agent of an older version that was killed may have reported a status that was not on its disk. What it says
	// when it is back counts nevertheless, because its next statuses continue from there. An end stays an end.
	if !t.status.State.Terminal() || rt.Status.State.Terminal() {
		t.number = rt.Status.Number
		status := withoutPlace(rt.Status)
		status.Framework, status.Task, status.Agent = ref.Framework, ref.Task, a.id
		t.become(status)
	}
	ended := rt.Ended || t.status.State.Terminal()
	r.countUnheard(t, before.State, got.first)
	r.noteReported(t, before.State)
	switch {
	case ended && fw.removed:
		r.tellAgent(a, protocol.AcknowledgeStatus{TaskRef: ref, Number: t.number})
		r.forgetTask(t)
		return
	case ended:
		r.releaseTask(t)
	case !t.held:
		r.holdReported(t)
	}
	switch {
	case t.duplicate, fw.removed:
	case back:
		r.answers.tellTask(t, api.ReasonAgentReregistered)
	case before.State != t.status.State || before.Number != t.status.Number:
		r.answers.tellTask(t, api.ReasonNone)
	}
}

// noteReported notes what a report has said of a task. An end that this leader hears first from a report is noted as an
// end: the leader before may have died without having heard of it, or with what it had told.
func (r *tasks) noteReported(t *task, before api.TaskState) {
	switch {
	case before == t.status.State:
		r.noteTask(t, change.Figures, "", api.ReasonNone)
	case before != api.TaskUnspecified:
		r.noteStatus(t)
	case t.status.State.Terminal():
		r.noteStatus(t)
		if !t.duplicate {
			ended := t.status.At
			r.changes[len(r.changes)-1].Heard = &ended
		}
	default:
		r.noteTask(t, change.Reported, "its agent has it: "+t.status.State.String(), t.status.Reason)
	}
}

// adoptTask makes a task from an agent's report. If another agent has a task of the same ID, the later launch of the
// two is a duplicate and is killed. But a launch that was DROPPED never ran, so it makes way for the other one.
// (Protocol rule R9.)
func (r *tasks) adoptTask(a *agent, fw *framework, ref api.TaskRef, rt protocol.ReportedTask) *task {
	t := &task{
		ref:       ref,
		name:      rt.Task.Name,
		framework: fw,
		agent:     a,
		role:      rt.Role,
		resources: rt.Resources,
		launch:    rt.Status.Launch,
		launched:  rt.LaunchedAt,
		proven:    r.isProven(a.id, rt),
	}
	fw.launches.alike.share(t, rt.Task)
	a.addTask(t)
	first := fw.tasks[ref.Task]
	switch {
	case first == nil:
		fw.tasks[ref.Task] = t
		fw.share.Add(view.Tally{Tasks: 1})
	case rt.Status.State == api.TaskDropped:
		t.standAside()
	case !r.launchedBefore(t.launch):
		r.refuseVoice(a, "the first launch of task "+ref.String())
		r.duplicate(t)
	case first.status.State == api.TaskDropped:
		fw.tasks[ref.Task] = t
		first.standAside()
	case first.launch.Compare(t.launch) < 0:
		r.duplicate(t)
	default:
		fw.tasks[ref.Task] = t
		r.duplicate(first)
	}
	return t
}

// launchedBefore reports whether an earlier leader may have made the launch. This leader knows its own launches, and
// every launch has a term. An agent that reports a launch without a term speaks of another agent's task, and must not
// cause that task to be killed. (Protocol rule R40.)
func (r *tasks) launchedBefore(launch api.LaunchID) bool {
	return launch.Number > 0 && launch.Term != (api.Term{}) && launch.Term.Before(r.term)
}

// holdReported books the resources that a reported task uses.
func (r *tasks) holdReported(t *task) {
	t.held = true
	t.agent.meter.Add(t.metered())
	t.agent.Take(t.resources)
	t.framework.holdTask(t)
	t.account = r.accountOfTask(t)
	r.accounts.Hold(t.account, t.resources, r.now)
	r.policy.Take(t.claim())
}

// taskMissing ends a task that its agent does not have (R8).
func (r *tasks) taskMissing(a *agent, t *task, rebooted bool) {
	r.releaseTask(t)
	if t.duplicate || t.framework.removed || t.status.State.Terminal() {
		r.forgetTask(t)
		return
	}
	end := api.Status{State: api.TaskDropped, Reason: api.ReasonAgentDisconnected, Message: "agent " + string(a.id) + " never got it"}
	switch past := t.number > 0 || t.status.State != api.TaskStaging; {
	case rebooted:
		end = api.Status{State: api.TaskGone, Reason: api.ReasonAgentRebooted, Message: "agent " + string(a.id) + " was rebooted"}
	case past:
		end = api.Status{State: api.TaskGone, Reason: api.ReasonAgentRestarted, Message: "agent " + string(a.id) + " is back without it"}
	}
	r.endTask(t, end)
}

// takeStubs replaces what the leader remembers of the agent's ended tasks (R15).
func (r *tasks) takeStubs(a *agent, got *report) {
	if got.first {
		r.countEnded(a, got.stubs)
	}
	r.stubs -= len(a.stubs)
	a.stubs = nil
	for _, stub := range got.stubs {
		stub.Status, stub.Resources = withoutPlace(stub.Status), api.Resources{}
		r.remember(a, stub)
	}
}
