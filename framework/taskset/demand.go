package taskset

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// restateDemand states the demand to the masters in each role where it may have changed. In a role where nothing is wanted
// nothing is offered. Where more is wanted than before, the masters forget the filters.
func (s *Set) restateDemand(now time.Time) error {
	roles := s.state.waiting.wants.Unstated(s.client.Roles())
	for _, name := range roles {
		if err := s.client.Demand(api.Demand{Role: name, Shapes: s.state.waiting.demandIn(name, s.state.known)}); err != nil {
			return err
		}
	}
	if len(roles) > 0 && s.state.known {
		s.state.waiting.awaitChange(now)
	}
	return nil
}

// demandIn returns what is wanted in a role of the framework.
func (q *waiting) demandIn(name api.Role, known bool) (shapes []api.Shape) {
	if !known {
		return nil
	}
	for _, r := range q.rolesNamed(name) {
		shapes = append(shapes, r.delay.Demand(name).Shapes...)
		for _, want := range q.wants.In(r.name) {
			shapes = append(shapes, q.shapesOf(want)...)
		}
	}
	return work.Stateable(shapes)
}

// awaitChange has the demand stated again when it next changes by time alone.
func (q *waiting) awaitChange(now time.Time) {
	q.alarms.Clear(q.change)
	q.change = nil
	if !q.config.Locality.Withhold {
		return
	}
	var wait time.Duration
	for _, r := range q.roles { // order: irrelevant because the shortest is taken
		if next := r.delay.NextChange(); next > 0 && (wait == 0 || next < wait) {
			wait = next
		}
	}
	if wait > 0 {
		q.change = q.alarms.Add(now.Add(wait), func(time.Time) { q.wants.RestateAll() })
	}
}

// spreadOfShapes returns what the demand says about places: the places to fill evenly come first.
func (q *waiting) spreadOfShapes() (spread []api.Spread) {
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

// hostsMost bounds the agents that a demand names because an executor runs there. On further agents, what has room for
// a task but not for another executor stays unused.
const hostsMost = 256

// shapesOf returns the shapes to state. An agent where the executor runs already may have room for a task but not for
// task and executor. So one of the tasks is demanded for such agents without the executor, and after its launch the
// next one. The sum stays what is wanted, so that nobody is preempted for more. The last task may go to any agent.
func (q *waiting) shapesOf(want work.Want) []api.Shape {
	whole, hosts := want.Shape, q.hosts[want.Executor]
	if want.Count < 2 || len(hosts) == 0 || len(hosts) > hostsMost {
		return []api.Shape{whole}
	}
	whole.Count--
	beside := whole
	beside.Resources, beside.Count, beside.Preferred, beside.OnlyPreferred = want.BesideRunning, 1, slices.Sorted(maps.Keys(hosts)), true
	return []api.Shape{beside, whole}
}

// countExecutor notes that the attempt's executor runs on its agent.
func (q *waiting) countExecutor(a *attempt) {
	executor := a.serves
	if executor == "" || a.Agent == "" {
		return
	}
	a.host = a.Agent
	if q.hosts[executor] == nil {
		q.hosts[executor] = make(map[api.AgentID]int)
	}
	q.hosts[executor][a.host]++
	if q.hosts[executor][a.host] == 1 {
		q.wants.RestateAll()
	}
}

// uncountExecutor notes that the attempt no longer needs its executor, which may end now.
func (q *waiting) uncountExecutor(a *attempt) {
	executor := a.serves
	if a.host == "" {
		return
	}
	hosts := q.hosts[executor]
	if hosts[a.host]--; hosts[a.host] == 0 {
		delete(hosts, a.host)
		q.wants.RestateAll()
	}
	if len(hosts) == 0 {
		delete(q.hosts, executor)
	}
}
