package books

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Task is a task that may be asked back.
type Task struct {
	Member *Member
	Claim  allocator.Claim
	Asked  bool // it has been asked back already
	Gone   bool
}

type taskKey struct {
	member int32
	id     api.TaskID
}

func (b *Books) AddTask(a *Agent, m *Member, claim allocator.Claim) {
	if !b.Preempts || claim.Task == "" {
		return
	}
	key := taskKey{m.Number, claim.Task}
	if old := b.Tasks[key]; old != nil {
		b.RemoveTask(b.AgentOf(old.Claim.Agent), m, claim.Task)
	}
	t := &Task{Member: m, Claim: claim}
	b.Tasks[key] = t
	a.Tasks = append(a.Tasks, t)
	b.Keeps.Stale = true
}

func (b *Books) RemoveTask(a *Agent, m *Member, id api.TaskID) {
	if !b.Preempts || id == "" {
		return
	}
	key := taskKey{m.Number, id}
	t := b.Tasks[key]
	if t == nil {
		return
	}
	if t.Asked {
		b.Leaving(t, -1)
	}
	t.Gone = true
	delete(b.Tasks, key)
	if a != nil {
		a.Tasks = slices.DeleteFunc(a.Tasks, func(other *Task) bool { return other == t })
	}
	b.Keeps.Stale = true
}

// Leaving counts a task as asked back (n +1), or as no longer asked back (-1).
func (b *Books) Leaving(t *Task, n int64) {
	t.Asked = n > 0
	b.Turn.Asked = b.Kinds.Count(b.Turn.Asked, t.Claim.Resources, nil)
	for r := t.Member.Role; r != nil; r = r.Parent {
		r.Leaving.SubTimes(b.Turn.Asked, -n)
	}
}

// DropTasks forgets the member's tasks on the agent.
func (b *Books) DropTasks(a *Agent, m *Member) {
	for _, t := range slices.Clone(a.Tasks) {
		if t.Member == m {
			b.RemoveTask(a, m, t.Claim.Task)
		}
	}
}
