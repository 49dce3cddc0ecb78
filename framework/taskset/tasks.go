package taskset

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Task is a task of a set that was launched and has not ended.
type Task struct {
	Item  string
	Group string
	// Status is the last status that was told, without its data: the task's state, its agent's hostname and zone, its
	// labels and named ports. The state is STAGING until a status was told.
	Status api.Status
	// Up says that the task is RUNNING, and healthy if its health is told or it has checks.
	Up bool
}

// Tasks lists what was launched and has not ended, by item, the oldest attempt first. Those
// that are up are what a load balancer needs to know, also right after a takeover:
//
//	for _, task := range set.Tasks() {
//		if task.Up {
//			fmt.Fprintf(file, "server %s:%d;\n", task.Status.Hostname, task.Status.Ports["http"])
//		}
//	}
//
// An item may have two: one that is silent or to be killed, and its replacement.
func (s *Set) Tasks() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := make([]Task, 0, len(s.state.attempts))
	for _, a := range slices.SortedFunc(maps.Values(s.state.attempts), func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.item.ID, b.item.ID), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Task, b.Task))
	}) {
		tasks = append(tasks, Task{Item: a.item.ID, Group: a.item.Group, Status: a.status, Up: !a.Up.IsZero()})
	}
	return tasks
}

// noteStatus keeps the last status, without parts that may be large.
func (a *attempt) noteStatus(status api.Status, now time.Time) {
	status.Data = nil
	if status.State == api.TaskRunning && a.State != api.TaskRunning {
		a.began = now
	}
	a.Hear(status, a.waits, now)
	a.status, a.Agent = status, cmp.Or(status.Agent, a.Agent)
	if version := status.Labels[VersionLabel]; version != "" {
		a.version = version
	}
}
