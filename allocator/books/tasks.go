package books

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

func (b *Books) addTask(a *agent, m *member, claim allocator.Claim) {
	if !b.options.Preempts || claim.Task == "" {
		return
	}
	key := taskKey{m.number, claim.Task}
	if old := b.tasks[key]; old != nil {
		b.removeTask(b.agentOf(old.claim.Agent), m, claim.Task)
	}
	t := &task{member: m, claim: claim}
	b.tasks[key] = t
	a.tasks = append(a.tasks, t)
	b.keeps.stale = true
}

func (b *Books) removeTask(a *agent, m *member, id api.TaskID) {
	if !b.options.Preempts || id == "" {
		return
	}
	key := taskKey{m.number, id}
	t := b.tasks[key]
	if t == nil {
		return
	}
	if t.asked {
		b.leaving(t, -1)
	}
	t.gone = true
	delete(b.tasks, key)
	if a != nil {
		a.tasks = slices.DeleteFunc(a.tasks, func(other *task) bool { return other == t })
	}
	b.keeps.stale = true
}

// leaving counts a task as asked back (n +1), or no more (-1).
func (b *Books) leaving(t *task, n int64) {
	t.asked = n > 0
	b.turn.asked = b.kinds.count(b.turn.asked, t.claim.Resources, nil)
	for r := t.member.role; r != nil; r = r.parent {
		r.leaving.subTimes(b.turn.asked, -n)
	}
}

// dropTasks forgets the member's tasks on the agent.
func (b *Books) dropTasks(a *agent, m *member) {
	for _, t := range slices.Clone(a.tasks) {
		if t.member == m {
			b.removeTask(a, m, t.claim.Task)
		}
	}
}
