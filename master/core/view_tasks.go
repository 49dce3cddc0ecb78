package core

import (
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// taskRow is a task that lives, or what remains of one. With neither, only its framework knows
// of it, as its agent is not back.
type taskRow struct {
	ref   api.TaskRef
	live  *task
	stub  *protocol.TaskStub
	agent *agent
}

// Tasks returns a page of the tasks, by FRAMEWORK/TASK; with All also of those that have
// ended and are remembered.
func (c *Core) Tasks(query Query) Page[TaskView] {
	var rows []taskRow
	if fw := c.frameworks[query.Framework]; query.Framework != "" && fw != nil {
		rows = wantedTasks(query, fw, rows)
	} else if query.Framework == "" {
		for _, fw := range c.frameworks { // order: irrelevant because paged sorts
			rows = wantedTasks(query, fw, rows)
		}
	}
	rows = c.wantedUntold(query, rows)
	if query.All {
		rows = c.wantedStubs(query, rows)
	}
	return paged(query, rows, func(row taskRow) string { return row.ref.String() }, c.showTask)
}

func wantedTasks(query Query, fw *framework, rows []taskRow) []taskRow {
	for ref, t := range fw.tasks { // order: irrelevant because paged sorts
		if wantsTask(query, t.ref, t.task.Name, t.agent.id, t.role, t.status.State) {
			rows = append(rows, taskRow{ref: api.TaskRef{Framework: fw.id, Task: ref}, live: t, agent: t.agent})
		}
	}
	return rows
}

// wantedUntold adds the tasks that only their frameworks know of. What role they have is not known.
func (c *Core) wantedUntold(query Query, rows []taskRow) []taskRow {
	for _, a := range c.agents { // order: irrelevant because paged sorts
		for _, ref := range c.untold(a) {
			if wantsTask(query, ref, "", a.id, "", api.TaskUnreachable) {
				rows = append(rows, taskRow{ref: ref, agent: a})
			}
		}
	}
	for id, refs := range c.lostAgents() { // order: irrelevant because paged sorts
		for _, ref := range refs {
			if wantsTask(query, ref, "", id, "", api.TaskUnreachable) {
				rows = append(rows, taskRow{ref: ref, agent: c.lostAgent(id)})
			}
		}
	}
	return rows
}

// wantedStubs adds ended tasks. One whose ID lives again, or whose end is not yet
// acknowledged, is shown once.
func (c *Core) wantedStubs(query Query, rows []taskRow) []taskRow {
	shown := make(map[api.TaskRef]bool, len(rows))
	for _, row := range rows {
		shown[row.ref] = true
	}
	for _, id := range sortedKeys(c.agents) {
		a := c.agents[id]
		for i := range a.stubs {
			stub := &a.stubs[i]
			if !shown[stub.TaskRef] && wantsTask(query, stub.TaskRef, stub.Name, id, stub.Role, stub.Status.State) {
				shown[stub.TaskRef] = true
				rows = append(rows, taskRow{ref: stub.TaskRef, stub: stub, agent: a})
			}
		}
	}
	return rows
}

func wantsTask(query Query, ref api.TaskRef, name string, agent api.AgentID, role api.Role, state api.TaskState) bool {
	return (query.Framework == "" || query.Framework == ref.Framework) && (query.Agent == "" || query.Agent == agent) &&
		(query.Role == "" || query.Role == role) && query.wantsState(state.String()) &&
		(query.wantsName(string(ref.Task), name) || strings.HasPrefix(ref.String(), query.Prefix))
}

func (c *Core) showTask(row taskRow) TaskView {
	view := TaskView{
		Framework:    row.ref.Framework,
		Agent:        row.agent.id,
		Hostname:     row.agent.info.Hostname,
		AgentAddress: row.agent.info.Address,
	}
	view.FrameworkName = c.registry.Frameworks[row.ref.Framework].Framework.Name
	if t := row.live; t != nil {
		view.Task, view.Role, view.Resources, view.Status, view.Launched = t.task, t.role, t.resources, t.status, t.launched
		view.Usage = t.agent.usage.Tasks[t.ref]
		return view
	}
	if row.stub == nil {
		view.Task = api.Task{ID: row.ref.Task}
		view.Status = api.Status{
			Framework: row.ref.Framework, Task: row.ref.Task, Agent: row.agent.id, State: api.TaskUnreachable,
			Reason: api.ReasonAgentDisconnected, Source: api.MoverMaster, At: row.agent.since,
			Message: "its framework knows of it; agent " + string(row.agent.id) + " is " + row.agent.gone,
		}
		return view
	}
	view.Task = api.Task{ID: row.ref.Task, Name: row.stub.Name}
	view.Role, view.Status, view.Launched = row.stub.Role, row.stub.Status, row.stub.LaunchedAt
	return view
}
