package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// task is a task that could be asked back.
type task struct {
	member *member
	claim  allocator.Claim
	asked  bool // it has been asked back already
	gone   bool
}

type taskKey struct {
	member int32
	id     api.TaskID
}

func (e *books) addTask(a *agent, m *member, claim allocator.Claim) {
	if !e.preempts || claim.Task == "" {
		return
	}
	key := taskKey{m.number, claim.Task}
	if old := e.tasks[key]; old != nil {
		e.removeTask(e.agentOf(old.claim.Agent), m, claim.Task)
	}
	t := &task{member: m, claim: claim}
	e.tasks[key] = t
	a.tasks = append(a.tasks, t)
	e.keeps.stale = true
}

func (e *books) removeTask(a *agent, m *member, id api.TaskID) {
	if !e.preempts || id == "" {
		return
	}
	key := taskKey{m.number, id}
	t := e.tasks[key]
	if t == nil {
		return
	}
	if t.asked {
		e.leaving(t, -1)
	}
	t.gone = true
	delete(e.tasks, key)
	if a != nil {
		a.tasks = slices.DeleteFunc(a.tasks, func(other *task) bool { return other == t })
	}
	e.keeps.stale = true
}

// leaving counts a task as asked back (n +1), or no more (-1).
func (e *books) leaving(t *task, n int64) {
	t.asked = n > 0
	e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
	for r := t.member.role; r != nil; r = r.parent {
		r.leaving.subTimes(e.turn.asked, -n)
	}
}

// dropTasks forgets the member's tasks on the agent.
func (e *books) dropTasks(a *agent, m *member) {
	for _, t := range slices.Clone(a.tasks) {
		if t.member == m {
			e.removeTask(a, m, t.claim.Task)
		}
	}
}
