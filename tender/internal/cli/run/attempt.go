package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// instance is one of the copies that were asked for. It is kept only from its first launch to its end.
type instance struct {
	work.Piece[*attempt] // one attempt, or two if the agent of the first is silent
	index                int
	attempts             int       // how many were begun so far
	restarts             int       // how many of these because the program had ended
	rest                 time.Time // no new attempt is launched before
	over                 bool
}

// takesAny returns from when on any offer will do for the next attempt.
func (i *instance) takesAny() time.Time {
	if i.Avoids == "" {
		return i.rest
	}
	return i.rest.Add(backoff.AvoidFor())
}

// attempt is one task of an instance. Each has its own task ID.
type attempt struct {
	work.Attempt
	of      *instance
	output  copying
	reached string             // the address that was told; "" = it has none, or none was told yet
	ended   chan struct{}      // closed at its terminal status
	context context.Context    //nolint:containedctx // of the following, which ends with the attempt's worth
	drop    context.CancelFunc // stops following: nobody wants the output
}

// unwanted reports whether it was killed in favor of another attempt.
func (a *attempt) unwanted() bool { return a.Kill == work.Unwanted }

// copying is how far an attempt's output was copied.
type copying uint8

const (
	unasked copying = iota // nothing was asked for yet
	coming
	behind // it is still being copied, although the attempt has ended
	here   // all of it was copied, or as much as could be had
)

// idOf returns the task ID of an instance's attempt.
func (j *job) idOf(index, attempts int) api.TaskID {
	id := api.TaskID(fmt.Sprintf("%s.%d", j.config.Name, index))
	if attempts > 0 {
		id += api.TaskID(fmt.Sprintf(".again%d", attempts))
	}
	return id
}

// launch begins the next attempt of an instance. Callers hold mu.
func (j *job) launch(i *instance, agent api.AgentID, now time.Time) api.Task {
	a := &attempt{Attempt: work.Attempt{Number: i.attempts, Task: j.idOf(i.index, i.attempts), Agent: agent, Since: now}, of: i, ended: make(chan struct{})}
	a.context, a.drop = context.WithCancel(j.own)
	i.attempts++
	i.Add(a)
	j.live[a.Task] = a
	j.launched = now
	task := j.config.Task
	task.ID = a.Task
	return task
}

// end forgets an attempt that has ended. Callers hold mu.
func (j *job) end(a *attempt, size *api.OutputSize) {
	delete(j.live, a.Task)
	switch {
	case a.unwanted(), a.output == unasked, size != nil && *size == api.OutputSize{}:
		a.drop()
	case a.output == coming:
		a.output = behind
		j.behind++
	}
	close(a.ended)
}

// dismiss ends an attempt for whose end nobody waits. Callers hold mu.
func (j *job) dismiss(a *attempt) {
	a.Ends(work.Unwanted)
	a.drop() // its output is not worth waiting for
	// The SDK repeats the kill until the task has ended. It refuses only a task that it never launched.
	_ = j.client.Kill(a.Task)
}

// back handles the return of a silent agent. If the task was started elsewhere, one of the two stays. Callers hold mu.
func (j *job) back(a *attempt) {
	a.Missed = false
	if a.unwanted() || a.of.over {
		return
	}
	j.config.Say("%s: agent %s is back", a.Task, a.Agent)
	j.waitNoMore(a.of)
	stays, ends := a.of.Stays(false, func(*attempt) bool { return true })
	for _, other := range ends {
		j.config.Say("%s is ended: %s goes on", other.Task, stays.Task)
		j.dismiss(other)
	}
}

// restartSilent launches instances elsewhere whose agents have been silent for too long.
func (j *job) restartSilent(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.config.Retry || j.config.Unreachable <= 0 || j.killing {
		return
	}
	changed := false
	for _, id := range sortedIDs(j.live) {
		a := j.live[id]
		if a.Silent.IsZero() || now.Sub(a.Silent) < j.config.Unreachable || !a.Holds() || a.of.over {
			continue
		}
		j.config.Say("%s has been UNREACHABLE for %v; starting it elsewhere", a.Task, j.config.Unreachable)
		a.Missed = true
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
