package core

import "github.com/tenderhq/tender/api"

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
