package taskset

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// shape is the wishes that ask for the same resources. If they have an executor, it is also how they are asked for
// where the executor runs.
type shape struct {
	executor api.ExecutorID // the executor, if it takes resources for itself; otherwise ""
	task     api.Resources
	ask      api.Resources // resources of one task, with those of the executor
	count    int64
	group    string // group of the tasks, if they are spread or kept apart
	spread   []api.Spread
}

func (q *waiting) newShape(w *wish) *shape {
	alone := w.task
	alone.Executor = nil
	return &shape{executor: hostOf(w.task), task: pack.Ask(alone), ask: w.ask, group: w.task.Group, spread: q.spread()}
}

// spread returns what the demand says about places: the places to fill evenly come first.
func (q *waiting) spread() (spread []api.Spread) {
	if q.config.Spread != "" {
		spread = append(spread, api.Spread{By: q.config.Spread})
	}
	if q.config.Apart != "" {
		spread = append(spread, api.Spread{By: q.config.Apart, Most: int64(q.config.Most)})
	}
	return spread
}

// hostOf returns the task's executor if the executor takes resources for itself, otherwise "".
func hostOf(task api.Task) api.ExecutorID {
	if task.Executor == nil || task.Executor.Resources.IsZero() {
		return ""
	}
	return task.Executor.ID
}

func shapeOf(w *wish) string {
	if w.task.Group != "" {
		return sizeOf(w) + " of " + w.task.Group
	}
	return sizeOf(w)
}

func sizeOf(w *wish) string {
	if executor := hostOf(w.task); executor != "" {
		return w.ask.String() + " with " + string(executor)
	}
	return w.ask.String()
}

// hostsMost bounds the agents that a demand names because an executor runs there. On further agents, what has room for
// a task but not for another executor stays unused.
const hostsMost = 256

// demands returns the shapes to state. An agent where the executor runs already may have room for a task but not for
// task and executor. So one of the tasks is demanded for such agents without the executor, and after its launch the
// next one. The sum stays what is wanted, so that nobody is preempted for more. The last task may go to any agent.
func (q *waiting) demands(one *shape) []api.Shape {
	whole := api.Shape{Resources: one.ask, Count: one.count, Spread: one.spread, Group: one.group}
	hosts := q.hosts[one.executor]
	if one.count < 2 || len(hosts) == 0 || len(hosts) > hostsMost {
		return []api.Shape{whole}
	}
	whole.Count--
	beside := whole
	beside.Resources, beside.Count, beside.Preferred, beside.OnlyPreferred = one.task, 1, slices.Sorted(maps.Keys(hosts)), true
	return []api.Shape{beside, whole}
}

// starts notes that the attempt's executor runs on its agent.
func (q *waiting) starts(a *attempt) {
	executor := a.serves
	if executor == "" || a.Agent == "" {
		return
	}
	a.host = a.Agent
	if q.hosts[executor] == nil {
		q.hosts[executor] = make(map[api.AgentID]int)
	}
	q.hosts[executor][a.host]++
	q.unsaid = q.unsaid || q.hosts[executor][a.host] == 1
}

// stops notes that the attempt no longer needs its executor, which may end now.
func (q *waiting) stops(a *attempt) {
	executor := a.serves
	if a.host == "" {
		return
	}
	hosts := q.hosts[executor]
	if hosts[a.host]--; hosts[a.host] == 0 {
		delete(hosts, a.host)
		q.unsaid = true
	}
	if len(hosts) == 0 {
		delete(q.hosts, executor)
	}
}
