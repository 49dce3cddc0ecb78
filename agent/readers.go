package agent

import (
	"slices"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
)

// reader is somebody who is sent files of a task.
type reader struct {
	task   api.TaskRef
	view   core.TaskView
	folder beneath.Place
	over   chan struct{} // closed when the task has ended, or this life of the agent's core
	ended  bool          // the task has ended; may be read once over is closed
}

// readers are those who wait for the end of a task.
type readers struct {
	byTask   map[api.TaskRef][]*reader // the loop's only
	followed tail.Watcher              // outputs of tasks
	visitors visitors.Visitors         // people who are let in by tickets
}

func (r *readers) add(one *reader) { r.byTask[one.task] = append(r.byTask[one.task], one) }

// remove forgets a reader that went away.
func (r *readers) remove(left *reader) {
	r.byTask[left.task] = slices.DeleteFunc(r.byTask[left.task], func(one *reader) bool { return one == left })
	if len(r.byTask[left.task]) == 0 {
		delete(r.byTask, left.task)
	}
}

// endTask tells all readers of a task that it has ended.
func (r *readers) endTask(task api.TaskRef) {
	for _, one := range r.byTask[task] {
		one.ended = true
		close(one.over)
	}
	delete(r.byTask, task)
}

// endLife tells all readers that this life of the agent's core is over; their tasks go on.
func (r *readers) endLife() {
	for _, readers := range r.byTask {
		for _, one := range readers {
			close(one.over)
		}
	}
	clear(r.byTask)
}
