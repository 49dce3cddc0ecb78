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
	agent  api.AgentID // "" until the row is settled, in a list of tasks that have not ended
	ended  *protocol.TaskStub
	untold bool
}

// TaskList notes the tasks, by FRAMEWORK/TASK. With All it includes those that have ended and are remembered. Only the
// leader knows any.
func TaskList(c Cluster, query Query) Listing[Task] {
	list := &listing[taskRow, Task]{name: func(row taskRow) string { return row.ref.String() }, reader: Cluster.taskReader}
	if c.Leader == nil {
		return list
	}
	if query.All {
		for t := range c.Leader.Tasks(query.Framework) {
			list.note(taskRow{ref: t.Ref, agent: t.Agent})
		}
	} else {
		for ref := range c.Leader.TaskRefs(query.Framework, query.Agent) {
			list.note(taskRow{ref: ref})
		}
	}
	for agent, ref := range c.Leader.Untold() {
		list.note(taskRow{ref: ref, agent: agent})
	}
	lost, _ := c.Leader.LostAgents()
	for agent, refs := range lost { // order: irrelevant because rows are sorted
		for _, ref := range refs {
			list.note(taskRow{ref: ref, agent: agent})
		}
	}
	if query.All {
		for _, stubs := range []iter.Seq2[api.AgentID, *protocol.TaskStub]{c.Leader.Apart(), c.Leader.Ended()} {
			for agent, stub := range stubs {
				list.note(taskRow{ref: stub.TaskRef, agent: agent, ended: stub})
			}
		}
	}
	return list
}

// taskReader returns a function that reads a row of the list of tasks.
func (c Cluster) taskReader(query *Query) func(taskRow) (Task, bool) {
	word := c.taskWord(query.Prefix)
	return func(row taskRow) (Task, bool) {
		brief, is := c.settle(&row)
		if !is || !query.wantsTask(&brief, &word) || !c.seesTask(&brief) {
			return Task{}, false
		}
		return c.task(row), true
	}
}

// settle notes in the row what has become of the task by now. It returns false when nobody knows of it any more, or
// when it is over and the list is of tasks that are not.
func (c Cluster) settle(row *taskRow) (TaskBrief, bool) {
	if row.ended == nil {
		if t, lives := c.Leader.FindTask(row.ref); lives {
			row.agent = t.Agent
			return t, true
		}
		if agent, named := c.Leader.FindUntold(row.ref); named {
			row.agent, row.untold = agent, true
			return TaskBrief{Ref: row.ref, Agent: agent, State: api.TaskUnreachable}, true // its role is not known
		}
		if row.ended = c.Leader.FindEnded(row.agent, row.ref); row.ended == nil {
			return TaskBrief{}, false
		}
	}
	return endedBrief(row.agent, row.ended), true
}

// endedBrief returns what a task is selected by that has ended on an agent.
func endedBrief(agent api.AgentID, stub *protocol.TaskStub) TaskBrief {
	return TaskBrief{Ref: stub.TaskRef, Name: stub.Name, Agent: agent, Role: stub.Role, Owner: stub.Owner, State: stub.Status.State}
}

// seesTask reports whether the caller may see the task.
func (c Cluster) seesTask(t *TaskBrief) bool {
	return c.Sees.Everything || c.Sees.Covers(c.on(t.Agent, c.taskObject(t.Ref.Framework, t.Role, t.Owner)))
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
	if !c.Sees.Everything && !c.Sees.Reveals(c.on(row.agent, c.taskObject(t.Framework, t.Role, t.Task.Owner))) {
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
