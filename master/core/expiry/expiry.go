// Package expiry says what a registry may forget: what it remembers of proposers, of removed frameworks and of agents
// marked gone, once it has not heard of them for a fortnight.
package expiry

import (
	"time"

	"github.com/tenderhq/tender/master/registry"
)

const (
	// After is for how long the past is remembered.
	After = 14 * 24 * time.Hour
	// Pause is how often it is looked through. Rarely is there anything to forget.
	Pause = time.Hour
	// quietMax is how long a cluster is believed to have been without any change before a leadership begins, when the
	// clock says that it was longer.
	quietMax = 24 * time.Hour
)

// Past is the time before this moment of a leadership, as far as it is believed. A wall clock that jumps makes nothing
// forgotten: within the leadership monotonic time counts, and of the time before it at most one day since the last
// change of the registry. (Protocol rule R23.)
type Past struct {
	Began     time.Time // the leadership
	lastHeard time.Time // the latest moment that the registry knew then
}

// Of is the past of a leadership that begins now.
func Of(state *registry.State, now time.Time) Past {
	return Past{Began: now, lastHeard: latestSign(state)}
}

// Forgettable is the moment before which all may be forgotten; false when the registry remembers nothing from before.
func (p Past) Forgettable(state *registry.State, now time.Time) (before time.Time, is bool) {
	from := p.Began.Round(0)
	if latest := p.lastHeard.Add(quietMax); !p.lastHeard.IsZero() && latest.Before(from) {
		from = latest
	}
	before = from.Add(now.Sub(p.Began)).Add(-After)
	return before, remembersBefore(state, before)
}

// latestSign is the latest moment that the registry knows.
func latestSign(state *registry.State) time.Time {
	latest := time.Time{}
	see := func(at time.Time) {
		if at.After(latest) {
			latest = at
		}
	}
	for _, client := range state.Clients { // order: irrelevant because the latest is looked for
		see(client.Seen)
	}
	for _, agent := range state.Agents { // order: irrelevant because the latest is looked for
		see(agent.Admitted)
		see(agent.Gone)
	}
	for _, framework := range state.Frameworks { // order: irrelevant because the latest is looked for
		see(framework.Admitted)
		see(framework.Removed)
	}
	return latest
}

// remembersBefore says whether there is anything to forget.
func remembersBefore(state *registry.State, before time.Time) bool {
	for _, client := range state.Clients { // order: irrelevant because one is enough
		if client.Seen.Before(before) {
			return true
		}
	}
	for _, agent := range state.Agents { // order: irrelevant because one is enough
		if !agent.Gone.IsZero() && agent.Gone.Before(before) {
			return true
		}
	}
	for _, framework := range state.Frameworks { // order: irrelevant because one is enough
		if !framework.Removed.IsZero() && framework.Removed.Before(before) {
			return true
		}
	}
	return false
}
