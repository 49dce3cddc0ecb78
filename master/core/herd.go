package core

import "time"

const (
	// herdMin is how many agents need not spread their return.
	herdMin = 500
	// returnEach is what an agent's return is given: a connection, a report, its check.
	returnEach = time.Millisecond
	// returnStep: not each agent that joins is news to all others.
	returnStep = 100 * time.Millisecond
)

// returnWithin is over how long the agents spread their return to the next leader, so
// that those who come first are useful while the others are on their way. All of them are
// back well before they are taken for dead.
func (r *agents) returnWithin() time.Duration {
	if len(r.agentByID) < herdMin {
		return 0
	}
	within := min(time.Duration(len(r.agentByID))*returnEach, r.config.TombstoneAfter/3)
	return within.Truncate(returnStep)
}

// returnNews is that, if it has changed since the agent's session was told last. A cluster
// that has become small again leaves it at what it was.
func (r *agents) returnNews(a *agent) time.Duration {
	within := r.returnWithin()
	if within == a.within || within == 0 {
		return 0
	}
	a.within = within
	return within
}
