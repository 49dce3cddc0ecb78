package core

import (
	"time"

	"github.com/tenderhq/tender/master/registry"
)

// expiry has the registry forget what is long past.
type expiry struct {
	*base
	proposals *proposals

	began time.Time // of this leadership
	// lastHeard is the latest moment that the registry knew when the leadership began.
	lastHeard time.Time
	next      *deadline // when the registry is looked through again
}

// What the registry remembers of proposers, of removed frameworks and of agents marked gone is forgotten when it heard
// nothing of them for a fortnight. It is looked through every hour, and rarely is there anything to forget.
const (
	expiryAfter = 14 * 24 * time.Hour
	expiryPause = time.Hour
)

func (r *expiry) beginExpiry() {
	r.lastHeard = latestSign(r.registry)
	r.deadlines.set(r.next, r.now.Add(expiryPause))
}

func (r *expiry) expire() {
	r.deadlines.set(r.next, r.now.Add(expiryPause))
	before := r.calendar().Add(-expiryAfter)
	if r.remembersBefore(before) {
		r.info("the past is forgotten", Field{"before", before.UTC().Format(time.RFC3339)})
		r.proposals.propose(registry.Expire{Before: before})
	}
}

// quietMax is how long a cluster is believed to have been without any change before a
// leadership begins, when the clock says that it was longer.
const quietMax = 24 * time.Hour

// calendar is the time by which things are forgotten. A wall clock that jumps makes nothing forgotten (R23): within the
// leadership monotonic time counts, and of the time before it at most one day since the last change of the registry is
// believed.
func (r *expiry) calendar() time.Time {
	from := r.began.Round(0)
	if latest := r.lastHeard.Add(quietMax); !r.lastHeard.IsZero() && latest.Before(from) {
		from = latest
	}
	return from.Add(r.now.Sub(r.began))
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
func (r *expiry) remembersBefore(before time.Time) bool {
	for _, client := range r.registry.Clients { // order: irrelevant because one is enough
		if client.Seen.Before(before) {
			return true
		}
	}
	for _, agent := range r.registry.Agents { // order: irrelevant because one is enough
		if !agent.Gone.IsZero() && agent.Gone.Before(before) {
			return true
		}
	}
	for _, framework := range r.registry.Frameworks { // order: irrelevant because one is enough
		if !framework.Removed.IsZero() && framework.Removed.Before(before) {
			return true
		}
	}
	return false
}

// goneForgotten follows the registry, which has forgotten agents that were marked gone.
func (r *agents) goneForgotten() {
	if len(r.agentByID) <= len(r.registry.Agents) {
		return
	}
	for _, id := range sortedKeys(r.agentByID) {
		if _, admitted := r.registry.Agents[id]; !admitted {
			r.agentRemoved(id, "forgotten: it was marked gone long ago")
		}
	}
}
