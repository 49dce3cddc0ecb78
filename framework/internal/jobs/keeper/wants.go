package keeper

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/work"
)

// wants is everything that waits, of all jobs: as a demand for the masters, and as a line of jobs for offers. It is
// updated job by job, so that a change costs no more than what has changed.
type wants struct {
	byJob map[string]*want
	work.Wants
	untold bool      // something has changed since the masters were told how many tasks of which jobs wait
	tellAt time.Time // when they may be told again
	line   line
}

// want is what waits of one job.
type want struct {
	name     string
	priority int
	busy     int // number of tasks that the job has
	master   *core.JobMaster
	asks     []core.Ask
	keys     []string // keys of the asks in the demand
	only     string   // key of the plain ask for which alone the job waits; "": it is looked at by itself
}

func newWants() wants {
	return wants{byJob: make(map[string]*want), Wants: work.NewWants()}
}

// update notes what waits of a job now, if it may begin anything.
func (w *wants) update(name string, master *core.JobMaster, may bool) {
	var asks []core.Ask
	if may {
		asks = master.Asks()
	}
	before := w.byJob[name]
	if before == nil && len(asks) == 0 {
		return
	}
	if before != nil && before.master == master && slices.EqualFunc(before.asks, asks, alike) {
		w.line.move(before, master.Busy())
		return
	}
	w.untold = true
	if before != nil {
		w.line.leave(before)
		for i, ask := range before.asks {
			w.Remove(before.keys[i], int64(ask.Count))
			w.Restate(ask.Role)
		}
		delete(w.byJob, name)
	}
	if len(asks) == 0 {
		return
	}
	fresh := &want{name: name, priority: master.Job.Priority, busy: master.Busy(), master: master, asks: asks}
	for _, ask := range asks {
		shape := ShapeOf(ask)
		shape.Count = int64(ask.Count)
		fresh.keys = append(fresh.keys, w.Add(work.Want{Shape: shape, Role: ask.Role, Priority: fresh.priority}))
		w.Restate(ask.Role)
	}
	w.byJob[name] = fresh
	if len(asks) == 1 && plain(asks[0]) {
		fresh.only = fresh.keys[0]
	}
	w.line.enter(fresh)
}

func alike(a, b core.Ask) bool {
	return a.SubJob == b.SubJob && a.Version == b.Version && a.Count == b.Count && a.Copy == b.Copy && a.Avoids == b.Avoids
}

// ShapeOf returns the shape that the masters are told for an ask, without its count.
func ShapeOf(ask core.Ask) api.Shape {
	shape := api.Shape{Resources: pack.Ask(withVolumes(ask, ask.Task.APITask(), api.Resources{})), Constraint: ask.Task.WantedAgent()}
	if ask.Task.Spread != "" {
		shape.Spread = []api.Spread{{By: ask.Task.Spread, Most: int64(ask.Task.Most)}}
		shape.Group = ask.Group
	}
	return shape
}

// shapes returns the demand in a role. If there are more shapes than masters accept, it returns those of the highest priority.
func (w *wants) shapes(role api.Role) (shapes []api.Shape) {
	for _, want := range w.In(role) {
		shapes = append(shapes, want.Shape)
	}
	return work.Stateable(shapes)
}

// Restate says that the masters may know the demand in a role otherwise than it is.
func (k *Keeper) Restate(role api.Role) { k.wants.Restate(role) }

// Waits returns for what a job waits, and the keys of that in the demand.
func (k *Keeper) Waits(name string) (asks []core.Ask, keys []string) {
	if want := k.wants.byJob[name]; want != nil {
		return want.asks, want.keys
	}
	return nil, nil
}
