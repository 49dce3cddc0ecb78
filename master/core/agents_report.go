package core

import (
	"errors"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// Bounds of one agent's report; an agent that names more loses its stream (Limit).
const (
	reportTasksMax      = 100_000
	reportExecutorsMax  = 100_000
	reportFrameworksMax = 100_000
	// readmitMax bounds the frameworks that are readmitted from one report (R21); those beyond
	// it are counted as removed ones until the agent reports again.
	readmitMax = 4096
	// stubsPerAgentMax bounds the ended tasks that are remembered of one agent (R15); the
	// oldest are forgotten.
	stubsPerAgentMax = 1000
	// stubsMax bounds those of all agents; from then on an agent's new ones replace its old.
	stubsMax = 200_000
)

// report gathers the pages in which an agent lists what it has (R2).
type report struct {
	tasks      []protocol.ReportedTask
	executors  []protocol.ReportedExecutor
	frameworks []api.Framework
	stubs      []protocol.TaskStub
	volumes    api.Resources
	rebooted   bool
}

// reportPage takes a page; pages of another session are of no use any more.
func (c *Core) reportPage(a *agent, page protocol.AgentReport) {
	switch {
	case page.Session != 0 && page.Session != a.session:
		return
	case a.report == nil: // all is in; at its first contact an agent has nothing but volumes of an earlier life
		if a.reported() && len(a.orphans) == 0 {
			c.checkVolumes(a, &report{volumes: page.Volumes})
		}
		return
	}
	r := a.report
	r.tasks = append(r.tasks, page.Tasks...)
	r.executors = append(r.executors, page.Executors...)
	r.frameworks = append(r.frameworks, page.Frameworks...)
	r.stubs = append(r.stubs, page.Stubs...)
	r.volumes = r.volumes.Plus(page.Volumes)
	r.rebooted = r.rebooted || page.Rebooted
	if page.Usage != nil {
		c.used(a, *page.Usage)
	}
	if fault := r.tooMuch(); fault != nil {
		c.expelAgent(a, fault)
		return
	}
	if page.Last {
		c.reportDone(a, phaseUp)
	}
}

// tooMuch says what of a report is beyond its bounds, nil if nothing is. Of stubs the latest
// count.
func (r *report) tooMuch() error {
	r.stubs = r.stubs[max(len(r.stubs)-2*stubsPerAgentMax, 0):]
	if len(r.tasks) > reportTasksMax || len(r.executors) > reportExecutorsMax || len(r.frameworks) > reportFrameworksMax {
		return fmt.Errorf("its report names more than %d tasks, executors or frameworks", reportTasksMax)
	}
	return r.volumes.Check()
}

// expelAgent closes the stream of an agent that went beyond a limit.
func (c *Core) expelAgent(a *agent, err error) {
	c.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Limit, a.id, err)})
	c.disconnectAgent(a, err.Error())
}

// reportDone makes the leader's picture of the agent what the agent says (promise 7).
// From here on it is offered, or from its first heartbeat on, if it is new.
func (c *Core) reportDone(a *agent, next phase) {
	r := a.report
	a.report, a.account = nil, max(a.account, r.account())
	a.enter(phaseReporting) // it is dead no more
	a.policyStale = true    // and the policy, which may have forgotten it, knows it before anything is taken on it
	c.restate(a)
	a.enter(next)
	c.readmitReported(a, r)
	c.takeExecutors(a, r)
	c.takeTasks(a, r)
	c.takeStubs(a, r)
	c.checkVolumes(a, r)
	a.killsAhead = nil // of what it does not have
	c.tellAgent(a, protocol.Reported{})
	c.resendKills(a)
	c.resendDrain(a)
	c.settleHold(a)
	if next == phaseUp { // else it is its first contact, and there is nothing to report
		c.info("agent reported", field("agent", a.id), field("tasks", fmt.Sprint(len(r.tasks))))
	}
	if a.over {
		c.warn("agent holds more than it has", field("agent", a.id), field("used", a.used.String()), field("total", a.total.String()))
	}
	c.restate(a)
	c.answerQuestions(a)
	c.checkDrained(a)
	c.askToLeave(a)
}

// account is what the agent has told with it.
func (r *report) account() account {
	if r.rebooted {
		return accountRebooted
	}
	return accountGiven
}

// readmitReported takes frameworks that the registry does not know from the agent's
// copy (R21), and tells the agent of those that were removed.
func (c *Core) readmitReported(a *agent, r *report) {
	copies, something := make(map[api.FrameworkID]api.Framework), make(map[api.FrameworkID]bool)
	for _, t := range r.tasks {
		something[t.Framework] = true
	}
	for _, x := range r.executors {
		something[x.Framework] = true
	}
	for _, info := range r.frameworks {
		if _, known := c.registry.Frameworks[info.ID]; !known && !something[info.ID] {
			c.refuseVoice(a, "framework "+string(info.ID))
			continue
		}
		if info.CheckSize() != nil { // of an older version: what it is called by is enough
			info = api.Framework{ID: info.ID, Name: info.Name, Principal: info.Principal, Standby: info.Standby}
		}
		copies[info.ID] = info
	}
	named := func(id api.FrameworkID, role api.Role) {
		if _, ok := copies[id]; !ok && id != "" {
			copies[id] = api.Framework{ID: id, Roles: []api.Role{role}}
		}
	}
	for _, t := range r.tasks {
		named(t.Framework, t.Role)
	}
	for _, x := range r.executors {
		named(x.Framework, x.Role)
	}
	readmitted := 0
	for _, id := range sortedKeys(copies) {
		known, ok := c.registry.Frameworks[id]
		switch {
		case ok && known.Removed.IsZero():
		case ok:
			c.tellAgent(a, protocol.RemoveFramework{Framework: id})
		case api.CheckID("framework", string(id)) == nil && readmitted < readmitMax:
			readmitted++
			c.readmit(a, copies[id])
		}
	}
}

// readmit asks the registry to take a framework back. Until it answers the framework is
// held as disconnected, so that what it uses is counted.
func (c *Core) readmit(a *agent, info api.Framework) {
	if fw := c.frameworks[info.ID]; fw != nil {
		return // asked already, for another agent
	}
	fw := c.newFramework(info.ID)
	fw.info = info
	c.describeToPolicy(fw)
	c.goAway(fw, "readmitted from the copy of agent "+string(a.id))
	c.info("framework readmitted", field("framework", info.ID), field("from", a.id))
	c.propose(registry.Readmit{Framework: info}, readmitFramework{fw})
}

// readmitAnswered goes on when the registry has answered.
func (c *Core) readmitAnswered(fw *framework, result registry.Result) {
	switch {
	case result.Err == nil:
	case result.Err.Kind == api.Limit: // no room for it; what it runs is counted and goes on
		c.info("framework not readmitted", field("framework", fw.id), field("why", result.Err.Error()))
	default:
		c.bury(fw, result.Err.Error())
	}
}

// takeTasks compares the reported tasks with those that are known, one by one.
func (c *Core) takeTasks(a *agent, r *report) {
	reported := make(map[api.TaskRef]bool, len(r.tasks))
	for _, rt := range r.tasks {
		ref := api.TaskRef{Framework: rt.Framework, Task: rt.Task.ID}
		fw := c.frameworks[rt.Framework]
		if reported[ref] || checkReported(rt) != nil {
			c.info("reported task dropped", field("task", ref.String()), field("agent", a.id))
			continue
		}
		reported[ref] = true
		if fw == nil {
			fw = c.tombstoneOf(rt.Framework)
		}
		c.taskReported(a, fw, ref, rt)
	}
	for _, t := range a.sortedTasks() {
		if !reported[t.ref] {
			c.taskMissing(a, t, r.rebooted)
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

// taskReported takes one task into the books.
func (c *Core) taskReported(a *agent, fw *framework, ref api.TaskRef, rt protocol.ReportedTask) {
	t := a.tasks[ref]
	if t == nil {
		t = c.adoptTask(a, fw, ref, rt)
	}
	before := t.status
	back := before.State == api.TaskUnreachable
	if rt.Status.Number >= t.number && (!t.status.State.Terminal() || rt.Status.State.Terminal()) {
		t.number = rt.Status.Number
		t.status = withoutPlace(rt.Status)
		t.status.Framework, t.status.Task, t.status.Agent = ref.Framework, ref.Task, a.id
	}
	ended := rt.Ended || t.status.State.Terminal()
	switch {
	case ended && fw.removed:
		c.tellAgent(a, protocol.AcknowledgeStatus{TaskRef: ref, Number: t.number})
		c.forgetTask(t)
		return
	case ended:
		c.releaseTask(t)
	case !t.held:
		c.holdReported(t)
	}
	switch {
	case t.duplicate, fw.removed:
	case back:
		c.tellTask(t, api.ReasonAgentReregistered)
	case before.State != t.status.State || before.Number != t.status.Number:
		c.tellTask(t, api.ReasonNone)
	}
}

// adoptTask makes a task of this term of what an agent reports. If another agent has
// one of the same ID, the later launch of the two is a duplicate and killed (R9).
func (c *Core) adoptTask(a *agent, fw *framework, ref api.TaskRef, rt protocol.ReportedTask) *task {
	t := &task{
		ref:       ref,
		task:      rt.Task,
		framework: fw,
		agent:     a,
		role:      rt.Role,
		resources: rt.Resources,
		launch:    launchID{rt.LaunchTerm, rt.LaunchNumber},
		launched:  rt.LaunchedAt,
		status:    api.Status{Framework: ref.Framework, Task: ref.Task, Agent: a.id, Executor: rt.Task.ExecutorID()},
	}
	if ahead, killed := a.killsAhead[ref]; killed {
		t.kill = &ahead
	}
	a.tasks[ref] = t
	first := fw.tasks[ref.Task]
	switch {
	case first == nil:
		fw.tasks[ref.Task] = t
	case !c.launchedBefore(t.launch):
		c.refuseVoice(a, "the first launch of task "+ref.String())
		c.duplicate(t)
	case first.launch.before(t.launch):
		c.duplicate(t)
	default:
		fw.tasks[ref.Task] = t
		c.duplicate(first)
	}
	return t
}

// launchedBefore says that a leader before this one may have made a launch. What this one has
// made it knows, and no launch is without a term: an agent that names such a one speaks of a
// task that is another's, and never has that one killed (R40).
func (c *Core) launchedBefore(launch launchID) bool {
	return launch.number > 0 && launch.term != (api.Term{}) && launch.term.Before(c.term)
}

// holdReported books what a reported task uses.
func (c *Core) holdReported(t *task) {
	t.held = true
	t.agent.units.add(t)
	t.agent.take(t.resources)
	t.framework.hold(t.role, t.resources)
	c.policy.Take(t.claim())
}

// taskMissing ends a task that its agent does not have (R8).
func (c *Core) taskMissing(a *agent, t *task, rebooted bool) {
	c.releaseTask(t)
	if t.duplicate || t.framework.removed || t.status.State.Terminal() {
		c.forgetTask(t)
		return
	}
	end := api.Status{State: api.TaskDropped, Reason: api.ReasonAgentDisconnected, Message: "agent " + string(a.id) + " never got it"}
	switch past := t.number > 0 || t.status.State != api.TaskStaging; {
	case rebooted:
		end = api.Status{State: api.TaskGone, Reason: api.ReasonAgentRebooted, Message: "agent " + string(a.id) + " was rebooted"}
	case past:
		end = api.Status{State: api.TaskGone, Reason: api.ReasonAgentRestarted, Message: "agent " + string(a.id) + " is back without it"}
	}
	c.endTask(t, end)
}

// takeStubs replaces what was remembered of the agent's ended tasks (R15).
func (c *Core) takeStubs(a *agent, r *report) {
	c.stubs -= len(a.stubs)
	a.stubs = nil
	for _, stub := range r.stubs {
		stub.Status = withoutPlace(stub.Status)
		c.remember(a, stub)
	}
}
