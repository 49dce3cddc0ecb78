// Package expiry says what a registry may forget: what it remembers of proposers, of removed frameworks and of agents
// marked gone, once it has not heard of them for a fortnight.
package expiry

import (
	"time"

	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// After is for how long the registry remembers what has ended.
	After = rights.RevokedFor
	// Pause is the time between two searches for what may be forgotten. There is rarely anything.
	Pause = time.Hour
	// quietMax is the longest time without any change that is believed to have passed before a leadership began. If the
	// wall clock says that it was longer, it is not believed.
	quietMax = 24 * time.Hour
)

// Past estimates how long ago things happened before this leadership. A wall clock that jumps forward must not make the
// registry forget anything. So time within the leadership is monotonic, and at most one day is believed to have passed
// between the registry's last change and the beginning of the leadership. (Protocol rule R23.)
type Past struct {
	Began     time.Time // when the leadership began
	lastHeard time.Time // the latest time that the registry held when the leadership began
}

// Of returns the past of a leadership that begins now.
func Of(state *registry.State, now time.Time) Past {
	return Past{Began: now, lastHeard: latestSign(state)}
}

// Forgettable returns the time before which everything may be forgotten. It returns false when the registry holds
// nothing that old.
func (p Past) Forgettable(state *registry.State, now time.Time) (before time.Time, is bool) {
	from := p.Began.Round(0)
	if latest := p.lastHeard.Add(quietMax); !p.lastHeard.IsZero() && latest.Before(from) {
		from = latest
	}
	before = from.Add(now.Sub(p.Began)).Add(-After)
	return before, remembersBefore(state, before)
}

// latestSign returns the latest time that the registry holds.
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

// remembersBefore reports whether the registry holds anything from before that time that could be forgotten.
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
