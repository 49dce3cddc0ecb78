package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/pause"
)

// herdWindow is how many short tasks are under way at the same time.
const herdWindow = 20

var shortResources = api.Scalars(0.1, 32)

// herdWork is the framework of a herd. It has tasks that stay on each agent, and runs one short task after the other.
type herdWork struct {
	ending
	each   int // how many tasks stay on each agent
	client *framework.Client

	mu       sync.Mutex
	standing int                   // how many tasks should stay
	placed   map[api.TaskID]bool   // the tasks of these that were launched; true: it is RUNNING; guarded by mu
	short    map[api.TaskID]*trial // short tasks under way; guarded by mu
	trials   []*trial              // all short tasks that ran; guarded by mu
	sessions []time.Time           // guarded by mu
	dropped  int                   // guarded by mu
	next     int                   // guarded by mu
	running  int                   // how many standing tasks run; guarded by mu
}

// trial holds the times of one short task.
type trial struct{ launched, running time.Time }

func (w *herdWork) Subscribed(_ context.Context, client *framework.Client) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client = client
	w.sessions = append(w.sessions, time.Now())
	if w.placed == nil {
		w.placed, w.short = make(map[api.TaskID]bool), make(map[api.TaskID]*trial)
	}
	return w.demand()
}

// stands returns what a task has that stays: together they have more than half of an agent's four cpus.
func (w *herdWork) stands() api.Resources { return api.Scalars(3/float64(w.each), 1024) }

// demand tells what is wanted now: first the tasks that stay, then short ones.
func (w *herdWork) demand() error {
	shapes := []api.Shape{}
	if missing := w.standing - len(w.placed); missing > 0 {
		shapes = append(shapes, api.Shape{Resources: w.stands(), Count: int64(missing)})
	} else if room := herdWindow - len(w.short); room > 0 {
		shapes = append(shapes, api.Shape{Resources: shortResources, Count: int64(room)})
	}
	return w.client.Demand(api.Demand{Shapes: shapes})
}

func (w *herdWork) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := make([]api.Answer, 0, len(offers))
	for _, offer := range offers {
		answer := api.Decline(offer, 50*time.Millisecond)
		switch {
		case len(w.placed) < w.standing && offer.Resources.Contains(w.stands()):
			answer = api.Launch(offer, w.stay(offer)...)
		case len(w.placed) == w.standing && len(w.short) < herdWindow:
			id := api.TaskID(fmt.Sprint("t", w.next))
			w.short[id] = &trial{launched: time.Now()}
			answer = api.Launch(offer, api.Task{ID: id, Resources: shortResources, Command: &api.Command{Shell: "sleep 0.1"}})
			answer.Filter = api.NoFilter
		}
		w.next++
		answers = append(answers, answer)
	}
	w.fail(w.demand())
	return answers
}

// stay returns the tasks that are to stay on what is offered.
func (w *herdWork) stay(offer api.Offer) (tasks []api.Task) {
	fit := int(offer.Resources.Scalar("cpus") / w.stands().Scalar("cpus"))
	for range min(fit, w.each, w.standing-len(w.placed)) {
		id := api.TaskID(fmt.Sprint("s", w.next))
		w.next++
		w.placed[id] = false
		tasks = append(tasks, api.Task{ID: id, Resources: w.stands(), Command: &api.Command{Shell: "sleep inf"}})
	}
	return tasks
}

func (w *herdWork) Update(_ context.Context, status api.Status) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ran, standing := w.placed[status.Task]; standing {
		w.updateStanding(status, ran)
		return nil
	}
	t := w.short[status.Task]
	switch {
	case t == nil:
		return nil
	case t.running.IsZero() && (status.State == api.TaskRunning || status.State == api.TaskFinished):
		t.running = time.Now()
		w.trials = append(w.trials, t)
	}
	if status.State.Terminal() {
		if status.State == api.TaskDropped {
			w.dropped++
		}
		delete(w.short, status.Task)
		w.fail(w.demand())
	}
	return nil
}

// updateStanding handles a status of a task that stays. It may fail at its beginning, but never later.
func (w *herdWork) updateStanding(status api.Status, ran bool) {
	switch {
	case status.State == api.TaskRunning && !ran:
		w.placed[status.Task] = true
		w.running++
		if w.running == w.standing {
			w.fail(w.demand())
		}
	case status.State == api.TaskDropped && !ran:
		delete(w.placed, status.Task)
		w.fail(w.demand())
	case status.State.Terminal():
		w.fail(fmt.Errorf("%s is %s %s: %s", status.Task, status.State, status.Reason, status.Message))
	}
}

// settled waits until all tasks that stay are running.
func (w *herdWork) settled(ctx context.Context) error {
	for pause.For(ctx, 10*time.Millisecond) {
		w.mu.Lock()
		done := w.running == w.standing
		w.mu.Unlock()
		if done {
			return nil
		}
	}
	return ctx.Err()
}

// recovered waits for the first session and the first new running task after a kill.
func (w *herdWork) recovered(ctx context.Context, killed time.Time) (session, ran time.Duration, err error) {
	for pause.For(ctx, 5*time.Millisecond) {
		w.mu.Lock()
		if last := w.sessions[len(w.sessions)-1]; last.After(killed) && session == 0 {
			session = last.Sub(killed)
		}
		for i := len(w.trials) - 1; i >= 0 && w.trials[i].running.After(killed); i-- {
			if w.trials[i].launched.After(killed) {
				ran = w.trials[i].running.Sub(killed)
			}
		}
		w.mu.Unlock()
		if session > 0 && ran > 0 {
			return session, ran, nil
		}
	}
	return 0, 0, ctx.Err()
}

// latencies returns those of the tasks that were launched within that time.
func (w *herdWork) latencies(from, to time.Time) (times []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.trials {
		if t.launched.After(from) && t.launched.Before(to) {
			times = append(times, t.running.Sub(t.launched))
		}
	}
	return times
}

func (w *herdWork) droppedSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}
