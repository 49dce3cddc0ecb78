package view

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Task is a task as people see it.
type Task struct {
	Task          api.Task
	Framework     api.FrameworkID
	FrameworkName string
	Role          api.Role
	Resources     api.Resources // as carved out of the offers
	Status        api.Status    // the latest
	Agent         api.AgentID
	Hostname      string
	AgentAddress  string
	Launched      time.Time
	Usage         api.Usage
}

// TaskBrief has the fields by which tasks are selected.
type TaskBrief struct {
	Ref   api.TaskRef
	Name  string
	Agent api.AgentID
	Role  api.Role
	Owner string // as in api.Task
	State api.TaskState
}

// taskRow is a task that has not ended, what is remembered of one that has, or one that only its framework has named.
type taskRow struct {
	ref    api.TaskRef
	agent  api.AgentID
	ended  *protocol.TaskStub
	untold bool
}

// Tasks returns a page of the tasks, by FRAMEWORK/TASK. With All it includes those that have ended and are remembered.
// Only the leader knows any.
func (c Cluster) Tasks(query Query) Page[Task] {
	if c.Leader == nil {
		return Page[Task]{}
	}
	list := taskRows{rows: newRows[taskRow](query), query: &query, word: c.taskWord(query.Prefix), cluster: c}
	if query.All {
		list.listed = make(map[api.TaskRef]bool)
	}
	for t := range c.Leader.Tasks(query.Framework) {
		if list.wants(&t) {
			list.add(t.Ref.String(), taskRow{ref: t.Ref, agent: t.Agent})
		}
	}
	for agent, ref := range c.Leader.Untold() {
		list.addUntold(agent, ref)
	}
	lost, _ := c.Leader.LostAgents()
	for agent, refs := range lost { // order: irrelevant because rows are sorted
		for _, ref := range refs {
			list.addUntold(agent, ref)
		}
	}
	if query.All {
		list.addStubs(c.Leader.Apart())
		list.addStubs(c.Leader.Ended())
	}
	return pageOf(list.rows, c.task)
}

// taskRows holds the rows of tasks that a query selects.
type taskRows struct {
	*rows[taskRow]
	query   *Query
	word    taskWord // the query's prefix
	cluster Cluster
	listed  map[api.TaskRef]bool // tasks that are listed already; nil when no ended ones follow
}

// wants reports whether the query selects the task, and notes that it is listed.
func (l *taskRows) wants(t *TaskBrief) bool {
	if !l.query.wantsTask(t, &l.word) || !l.cluster.seesTask(t) {
		return false
	}
	if l.listed != nil {
		l.listed[t.Ref] = true
	}
	return true
}

// addUntold adds a task that only its framework has named. Its role is not known.
func (l *taskRows) addUntold(agent api.AgentID, ref api.TaskRef) {
	if l.wants(&TaskBrief{Ref: ref, Agent: agent, State: api.TaskUnreachable}) {
		l.add(ref.String(), taskRow{ref: ref, agent: agent, untold: true})
	}
}

// addStubs adds tasks that have ended, or that were set apart. If a task with the same ID is listed already, it is not
// listed again.
func (l *taskRows) addStubs(stubs iter.Seq2[api.AgentID, *protocol.TaskStub]) {
	for agent, stub := range stubs {
		brief := TaskBrief{Ref: stub.TaskRef, Name: stub.Name, Agent: agent, Role: stub.Role, Owner: stub.Owner, State: stub.Status.State}
		if !l.listed[stub.TaskRef] && l.wants(&brief) {
			l.add(stub.TaskRef.String(), taskRow{ref: stub.TaskRef, agent: agent, ended: stub})
		}
	}
}

// seesTask reports whether the caller may see the task.
func (c Cluster) seesTask(t *TaskBrief) bool {
	return c.Sees.Covers(c.on(t.Agent, c.taskObject(t.Ref.Framework, t.Role, t.Owner)))
}

// hidden replaces what only the owner of a task and admins may see.
const hidden = "(hidden)"

// withoutEnvironment returns the command with the names of its variables but without their values.
func withoutEnvironment(command *api.Command) *api.Command {
	if command == nil || len(command.Env) == 0 {
		return command
	}
	shown := *command
	shown.Env = make(map[string]string, len(command.Env))
	for name := range command.Env { // order: irrelevant because it fills a map
		shown.Env[name] = hidden
	}
	return &shown
}

// withoutSecrets returns the command with its URIs in the form in which they may be shown.
func withoutSecrets(command *api.Command) *api.Command {
	if command == nil || len(command.URIs) == 0 {
		return command
	}
	shown := *command
	shown.URIs = slices.Clone(command.URIs)
	for i, uri := range shown.URIs {
		shown.URIs[i].Source = uri.Redacted()
	}
	return &shown
}

func (q *Query) wantsTask(t *TaskBrief, word *taskWord) bool {
	return (q.Framework == "" || q.Framework == t.Ref.Framework) && (q.Agent == "" || q.Agent == t.Agent) &&
		(q.Role == "" || q.Role == t.Role) && q.wantsState(t.State.String()) &&
		(q.wantsName(string(t.Ref.Task), t.Name) || strings.HasPrefix(t.Ref.String(), q.Prefix) || word.names(t.Ref, t.Name) != namesNot)
}

// task returns everything that is known of a task.
func (c Cluster) task(row taskRow) Task {
	var t Task
	switch {
	case row.untold:
		t = c.untold(row)
	case row.ended != nil:
		t = Task{Task: api.Task{ID: row.ref.Task, Name: row.ended.Name, Owner: row.ended.Owner}, Role: row.ended.Role, Status: row.ended.Status, Launched: row.ended.LaunchedAt}
	default:
		t = c.Leader.Task(row.ref)
	}
	host := c.Registry.Agents[row.agent].Agent
	t.Framework, t.FrameworkName = row.ref.Framework, c.Registry.Frameworks[row.ref.Framework].Framework.Name
	t.Agent, t.Hostname, t.AgentAddress = row.agent, host.Hostname, host.Address
	t.Task.Command = withoutSecrets(t.Task.Command)
	if !c.Sees.Reveals(c.on(row.agent, c.taskObject(t.Framework, t.Role, t.Task.Owner))) {
		t.Task.Command = withoutEnvironment(t.Task.Command)
	}
	return t
}

// untold returns a task that only its framework has named.
func (c Cluster) untold(row taskRow) Task {
	since, why := c.away(row.agent)
	return Task{Task: api.Task{ID: row.ref.Task}, Status: api.Status{
		Framework: row.ref.Framework, Task: row.ref.Task, Agent: row.agent, State: api.TaskUnreachable,
		Reason: api.ReasonAgentDisconnected, Source: api.MoverMaster, At: since,
		Message: "its framework knows of it; agent " + string(row.agent) + " is " + why,
	}}
}

// away says since when and why an agent is not back.
func (c Cluster) away(id api.AgentID) (since time.Time, why string) {
	if _, known := c.Registry.Agents[id]; known {
		a := c.Leader.Agent(id)
		return a.Since, a.Missing
	}
	_, since = c.Leader.LostAgents()
	return since, lostWhy
}
