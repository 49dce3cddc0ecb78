package core

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// waiting lets slots wait for agents: after a pause or at once, of the version that they will run, and in a system job
// for their own agent, not without limit.
type waiting struct{ *base }

// In a sub-job with an index on each agent (EachAgent) a slot belongs to one agent for good. If the slot's agent is
// silent, the slot waits for it. If its task is lost, the slot is forgotten, and the agent gets a new slot when it is
// offered again.

// unclaimedMost is how long a slot waits for an offer of its agent. After that the agent is assumed to have left.
const unclaimedMost = time.Hour

// awaitAgent lets the slot wait for an agent. In a sub-job with an index on each agent it waits for its own agent, and not
// without limit.
func (r *waiting) awaitAgent(sub *subJob, s *slot) {
	sub.queueSlot(s)
	if s.Avoids != "" {
		r.Alarms.set(alarm{At: r.now.Add(backoffOf(r.taskOf(sub, s.Version)).AvoidFor()), Kind: avoidOver, SubJob: sub.Name, Index: s.Index, Attempt: s.Tries})
	}
	if sub.EachAgent {
		r.Alarms.set(alarm{At: r.now.Add(unclaimedMost), Kind: unclaimed, SubJob: sub.Name, Index: s.Index})
	}
}

// endWait ends the pause of a slot, its wait for an agent that has left, or that it avoids one.
func (r *waiting) endWait(sub *subJob, s *slot, due alarm) {
	switch due.Kind {
	case pauseOver:
		if !s.Pause.IsZero() && !s.Pause.After(r.now) {
			sub.endPause(s)
			r.awaitAgent(sub, s)
		}
	case unclaimed:
		if s.Queued && sub.EachAgent {
			sub.dropSlot(s)
			r.savePart(sub, s.Index)
		}
	default:
		if s.Queued && s.Tries == due.Attempt {
			sub.avoidAgent(s, "")
		}
	}
}

// changeVersion sets the version of the slot's next task.
func (r *waiting) changeVersion(sub *subJob, s *slot, number int) {
	sub.Survey.Touch(s.Index)
	if s.Version == number {
		return
	}
	queued := s.Queued
	sub.unqueueSlot(s)
	s.Version = number
	sub.avoidAgent(s, "") // another version may do well where this one did not
	if queued {
		sub.queueSlot(s)
	}
	r.savePart(sub, s.Index)
}

// queue holds the slots of a sub-job that wait for an agent.
type queue struct {
	Lines  map[int][]*slot // by version; some of them may no longer wait
	Queued map[int]int     // how many wait, by version
}

// queueSlot lets the slot wait for an agent.
func (q *queue) queueSlot(s *slot) {
	if s.Queued {
		return
	}
	s.Queued = true
	q.Lines[s.Version] = append(q.Lines[s.Version], s)
	q.Queued[s.Version]++
}

// unqueueSlot ends the slot's wait. Its entry in the queue is skipped later.
func (q *queue) unqueueSlot(s *slot) {
	if !s.Queued {
		return
	}
	s.Queued = false
	if q.Queued[s.Version]--; q.Queued[s.Version] == 0 {
		delete(q.Queued, s.Version)
		delete(q.Lines, s.Version)
	}
}

// firstQueued returns the slot of the version that has waited for longest, of those that do not avoid the agent; nil: none
// waits for it.
func (q *queue) firstQueued(version int, agent api.AgentID) *slot {
	line := q.Lines[version]
	for len(line) > 0 && !line[0].waits(version) {
		line = line[1:]
		q.Lines[version] = line
	}
	for _, s := range line {
		if s.waits(version) && (agent == "" || s.Avoids != agent) {
			return s
		}
	}
	return nil
}
