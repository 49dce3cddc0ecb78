package taskset

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// shape is wishes that ask for the same, and what they ask where their executor runs.
type shape struct {
	executor api.ExecutorID // one that takes resources for itself; "": none does
	task     api.Resources
	ask      api.Resources // with the executor
	count    int64
}

func newShape(w *wish) *shape {
	alone := w.task
	alone.Executor = nil
	return &shape{executor: hostOf(w.task), task: pack.Ask(alone), ask: w.ask}
}

// hostOf is the task's executor, if that one takes resources for itself.
func hostOf(task api.Task) api.ExecutorID {
	if task.Executor == nil || task.Executor.Resources.IsZero() {
		return ""
	}
	return task.Executor.ID
}

func shapeOf(w *wish) string {
	if executor := hostOf(w.task); executor != "" {
		return w.ask.String() + " with " + string(executor)
	}
	return w.ask.String()
}

// hostsMost bounds the agents that a demand names because an executor runs there. On
// more of them, rests that have room for a task and for no executor stay unused.
const hostsMost = 256

// demands states the shape. Agents where the executor runs have room for a task in what
// is too little for both; so one of the tasks is wanted there, and after its launch the
// next. The sum stays what is wanted, so that nobody is preempted for more, and the last
// one may go to any agent.
func (s *Set) demands(one *shape) []api.Shape {
	whole := api.Shape{Resources: one.ask, Count: one.count}
	hosts := s.hosts[one.executor]
	if one.count < 2 || len(hosts) == 0 || len(hosts) > hostsMost {
		return []api.Shape{whole}
	}
	whole.Count--
	return []api.Shape{{Resources: one.task, Count: 1, Preferred: slices.Sorted(maps.Keys(hosts)), OnlyPreferred: true}, whole}
}

// starts notes that the attempt's executor runs on its agent.
func (s *Set) starts(a *attempt) {
	executor := hostOf(a.item.Task)
	if executor == "" || a.agent == "" {
		return
	}
	a.host = a.agent
	if s.hosts[executor] == nil {
		s.hosts[executor] = make(map[api.AgentID]int)
	}
	s.hosts[executor][a.host]++
	s.unsaid = s.unsaid || s.hosts[executor][a.host] == 1
}

// stops takes that back: it may end now.
func (s *Set) stops(a *attempt) {
	executor := hostOf(a.item.Task)
	if a.host == "" {
		return
	}
	hosts := s.hosts[executor]
	if hosts[a.host]--; hosts[a.host] == 0 {
		delete(hosts, a.host)
		s.unsaid = true
	}
	if len(hosts) == 0 {
		delete(s.hosts, executor)
	}
}
