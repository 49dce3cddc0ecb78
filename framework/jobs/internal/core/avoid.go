package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
)

// After avoidAfter tasks in a row that have ended badly, a slot goes to another agent than that of the latest of them: the
// machine may have what others have not, such as a program that holds the task's port (R62). Where no other has room
// within avoidMost, or the task's BackoffMax if that is less, the slot may go there again.
const (
	avoidAfter = 3
	avoidMost  = 10 * time.Second
)

// avoidIfBad lets a slot avoid the agent of the task that it had before, if that was not the first to end badly.
func (m *JobMaster) avoidIfBad(s *subJob, one *slot, before *attempt) {
	if s.EachAgent || one.Row < avoidAfter {
		return
	}
	s.avoid(one, before.Agent)
	if one.Row == avoidAfter {
		m.note("index %d of %s has ended badly %d times in a row, the last time on %s; it goes to another agent, if one has room", one.Index, s.Name,
			one.Row, cmp.Or(before.Hostname, string(before.Agent)))
	}
}

// avoid lets the slot avoid an agent; "": none any more.
func (s *subJob) avoid(one *slot, agent api.AgentID) {
	if one.Avoids == agent {
		return
	}
	if one.Avoids != "" {
		s.Avoid--
	}
	if one.Avoids = agent; agent != "" {
		s.Avoid++
	}
}

// watchAvoided sets the alarm at which a slot that waits may go again to the agent that it avoids.
func (m *JobMaster) watchAvoided(s *subJob, one *slot) {
	if one.Avoids != "" {
		most := min(avoidMost, time.Duration(m.task(s, one.Version).BackoffMax))
		m.Alarms.set(alarm{At: m.now.Add(most), Kind: avoidOver, SubJob: s.Name, Index: one.Index, Attempt: one.Tries})
	}
}
