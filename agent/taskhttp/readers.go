package taskhttp

import (
	"slices"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
)

// reader is a client that is sent files of a task.
type reader struct {
	task   api.TaskRef
	view   core.TaskView
	folder beneath.Place
	over   chan struct{} // closed when the task has ended, or this life of the agent's core has
	ended  bool          // the task has ended; may be read after over is closed
}

// Readers are the clients that wait for the end of a task. All methods are for the agent's loop alone.
type Readers struct {
	byTask   map[api.TaskRef][]*reader // the loop's goroutine only
	followed tail.Watcher              // watches outputs of tasks
}

func (r *Readers) add(one *reader) {
	if r.byTask == nil {
		r.byTask = map[api.TaskRef][]*reader{}
	}
	r.byTask[one.task] = append(r.byTask[one.task], one)
}

// remove forgets a reader that has gone away.
func (r *Readers) remove(left *reader) {
	r.byTask[left.task] = slices.DeleteFunc(r.byTask[left.task], func(one *reader) bool { return one == left })
	if len(r.byTask[left.task]) == 0 {
		delete(r.byTask, left.task)
	}
}

// EndTask tells all readers of a task that it has ended.
func (r *Readers) EndTask(task api.TaskRef) {
	for _, one := range r.byTask[task] {
		one.ended = true
		close(one.over)
	}
	delete(r.byTask, task)
}

// EndLife tells all readers that this life of the agent's core is over; their tasks go on.
func (r *Readers) EndLife() {
	for _, readers := range r.byTask {
		for _, one := range readers {
			close(one.over)
		}
	}
	clear(r.byTask)
}
