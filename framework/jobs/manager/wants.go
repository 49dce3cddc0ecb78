package manager

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs/internal/core"
	"github.com/tenderhq/tender/framework/pack"
)

// wants is everything that waits, of all jobs: as a demand for the masters, and as lines of jobs for offers. It is
// updated job by job, so that a change costs no more than what has changed.
type wants struct {
	byJob  map[string]*want
	demand map[string]*wanted
	lines  map[string]line // by the shape for which the jobs wait; "": jobs that are looked at one by one
}

// want is what waits of one job.
type want struct {
	name     string
	priority int
	busy     int // number of tasks that the job has
	master   *core.JobMaster
	asks     []core.Ask
	keys     []string // keys of the asks in demand
	line     string
}

// wanted is one shape of the demand, for everything that waits with this shape.
type wanted struct {
	shape    api.Shape
	priority int // the highest priority of what waits
}

func newWants() wants {
	return wants{byJob: make(map[string]*want), demand: make(map[string]*wanted), lines: make(map[string]line)}
}

// update notes what waits of a job now, if it may begin anything; false: nothing has changed.
func (w *wants) update(name string, master *core.JobMaster, may bool) bool {
	var asks []core.Ask
	if may {
		asks = master.Asks()
	}
	before := w.byJob[name]
	if before == nil && len(asks) == 0 {
		return false
	}
	if before != nil && before.master == master && slices.EqualFunc(before.asks, asks, alike) {
		w.moveInLine(before, master.Busy())
		return false
	}
	if before != nil {
		w.leaveLine(before)
		for i, ask := range before.asks {
			shape := w.demand[before.keys[i]]
			if shape.shape.Count -= int64(ask.Count); shape.shape.Count == 0 {
				delete(w.demand, before.keys[i])
			}
		}
		delete(w.byJob, name)
	}
	if len(asks) == 0 {
		return true
	}
	fresh := &want{name: name, priority: master.Job.Priority, busy: master.Busy(), master: master, asks: asks}
	for _, ask := range asks {
		shape := shapeOf(ask)
		key := fmt.Sprint(shape.Resources, "\n", shape.Constraint, "\n", shape.Spread, "\n", shape.Group)
		fresh.keys = append(fresh.keys, key)
		if w.demand[key] == nil {
			w.demand[key] = &wanted{shape: shape, priority: fresh.priority}
		}
		w.demand[key].shape.Count += int64(ask.Count)
		w.demand[key].priority = max(w.demand[key].priority, fresh.priority)
	}
	w.byJob[name] = fresh
	if len(asks) == 1 && plain(asks[0]) {
		fresh.line = fresh.keys[0]
	}
	w.enterLine(fresh)
	return true
}

func alike(a, b core.Ask) bool {
	return a.SubJob == b.SubJob && a.Version == b.Version && a.Count == b.Count && a.Copy == b.Copy && a.Avoids == b.Avoids
}

// shapeOf returns the shape that the masters are told for an ask, without its count.
func shapeOf(ask core.Ask) api.Shape {
	shape := api.Shape{Resources: pack.Ask(ask.Task.APITask()), Constraint: ask.Task.WantedAgent()}
	if ask.Task.Spread != "" {
		shape.Spread = []api.Spread{{By: ask.Task.Spread, Most: int64(ask.Task.Most)}}
		shape.Group = ask.Group
	}
	return shape
}

// shapes returns the demand. If there are more shapes than masters accept, it returns those of the highest priority.
func (w *wants) shapes() (shapes []api.Shape) {
	keys := slices.SortedFunc(maps.Keys(w.demand), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.demand[b].priority, w.demand[a].priority), cmp.Compare(a, b))
	})
	constraints := 0
	for _, key := range keys {
		shape := w.demand[key].shape
		if constraints += len(shape.Constraint); len(shapes) == api.DemandsPerRoleMax || constraints > api.ConstraintBytesPerDemandMax {
			break
		}
		shapes = append(shapes, shape)
	}
	return shapes
}
