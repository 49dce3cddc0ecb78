package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// instance is one of the copies that were asked for. It is only kept from its first launch to its end.
type instance struct {
	index    int
	attempts int        // begun so far
	restarts int        // of these, because its program had ended
	live     []*attempt // launched and not ended: one, or two when the agent of the first is silent
	rest     time.Time  // not launched again before
	over     bool
}

// attempt is one task of an instance. Each has an ID of its own.
type attempt struct {
	of       *instance
	id       api.TaskID
	state    api.TaskState
	agent    api.AgentID
	output   copying
	unwanted bool               // it was killed in favor of another attempt
	reached  string             // where, as it was said; "" = nowhere, or not said yet
	silent   time.Time          // since when its agent is; zero: it is not
	ended    chan struct{}      // closed at its terminal status
	size     *api.OutputSize    // of what it has written, when that is known; to be read when ended is closed
	context  context.Context    //nolint:containedctx // of the following, which ends with the attempt's worth
	drop     context.CancelFunc // ends the following: nobody wants the output
}

// copying is how far the bringing of an attempt's output has come.
type copying uint8

const (
	unasked copying = iota // nobody has asked for it yet
	coming
	behind // it still comes, though the attempt has ended
	here   // all of it, or as much as could be had
)

// idOf is the task of an instance's attempt.
func (j *job) idOf(index, attempts int) api.TaskID {
	id := api.TaskID(fmt.Sprintf("%s.%d", j.config.Name, index))
	if attempts > 0 {
		id += api.TaskID(fmt.Sprintf(".again%d", attempts))
	}
	return id
}

// launch begins the next attempt of an instance. Under mu.
func (j *job) launch(i *instance, agent api.AgentID, now time.Time) api.Task {
	a := &attempt{of: i, id: j.idOf(i.index, i.attempts), agent: agent, ended: make(chan struct{})}
	a.context, a.drop = context.WithCancel(j.own)
	i.attempts++
	i.live = append(i.live, a)
	j.live[a.id] = a
	j.launched = now
	task := j.config.Task
	task.ID = a.id
	return task
}

// end forgets an attempt that has ended. Under mu.
func (j *job) end(a *attempt, size *api.OutputSize) {
	a.size = size
	close(a.ended)
	delete(j.live, a.id)
	a.of.live = slices.DeleteFunc(a.of.live, func(other *attempt) bool { return other == a })
	switch {
	case a.unwanted, a.output == unasked:
		a.drop()
	case a.output == coming:
		a.output = behind
		j.behind++
	}
}

// dismiss ends an attempt of which nobody waits for the end. Under mu.
func (j *job) dismiss(a *attempt) {
	a.unwanted = true
	a.drop() // what it has written is not worth waiting for
	// The SDK repeats it until the task has ended; it refuses only what it never launched.
	_ = j.client.Kill(a.id)
}

// silence notes that the agent of a task is silent. Under mu.
func (j *job) silence(a *attempt) {
	if !a.silent.IsZero() {
		return
	}
	a.silent = time.Now()
	if !a.unwanted {
		j.config.Say("%s: agent %s is silent; waiting for it to come back", a.id, a.agent)
	}
}

// back settles what was started elsewhere: the task that has run for longer stays. Under mu.
func (j *job) back(a *attempt) {
	if a.silent.IsZero() {
		return
	}
	a.silent = time.Time{}
	if a.unwanted || a.of.over {
		return
	}
	j.config.Say("%s: agent %s is back", a.id, a.agent)
	j.waitNoMore(a.of)
	for _, other := range slices.Clone(a.of.live) {
		if other != a {
			j.config.Say("%s is ended: %s goes on", other.id, a.id)
			j.dismiss(other)
		}
	}
}

// restartSilent has instances launched elsewhere whose agent is silent for too long.
func (j *job) restartSilent(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.config.Retry || j.config.Unreachable <= 0 || j.killing {
		return
	}
	changed := false
	for _, id := range sortedIDs(j.live) {
		a := j.live[id]
		if a.silent.IsZero() || now.Sub(a.silent) < j.config.Unreachable || a.unwanted || a.of.over || j.waits(a.of) || len(a.of.live) > 1 {
			continue
		}
		j.config.Say("%s has been UNREACHABLE for %v; starting it elsewhere", a.id, j.config.Unreachable)
		j.tryAgain(a.of)
		changed = true
	}
	if changed {
		j.demand()
	}
}

func sortedIDs(live map[api.TaskID]*attempt) []api.TaskID {
	ids := make([]api.TaskID, 0, len(live))
	for id := range live { // order: sorted below
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
