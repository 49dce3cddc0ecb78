package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

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
	pictures pictures                  // answers about all that is on the agent
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

// What shows all that is on an agent is made at once, and in memory until its reader has taken it. So few of these answers
// are under way, and each has its time.

const (
	// picturesMax bounds them; one more waits.
	picturesMax = 8
	// pictureWaitMax is how long it waits. Longer: it is refused (Limit).
	pictureWaitMax = 3 * time.Second
	// pictureTimeMax is how long a reader may take. Longer: it is cut off.
	pictureTimeMax = 10 * time.Second
)

// pictures has a place for each of them.
type pictures chan struct{}

func newPictures() pictures { return make(pictures, picturesMax) }

// bounded serves in a place, and no longer than a reader may take.
func (p pictures) bounded(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wait, cancel := context.WithTimeout(r.Context(), pictureWaitMax)
		defer cancel()
		select {
		case p <- struct{}{}:
			defer func() { <-p }()
		case <-wait.Done():
			w.Header().Set("Retry-After", fmt.Sprintf("%.0f", pictureWaitMax.Seconds()))
			answer(w, api.E("agent.state", api.Limit, "", errors.New("too many look at this agent and do not read; come back in "+pictureWaitMax.String())))
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetWriteDeadline(time.Now().Add(pictureTimeMax)) // of HTTP/2 that of the stream
		defer func() { _ = connection.SetWriteDeadline(time.Time{}) }()
		serve(w, r)
	}
}
