package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// subJob is a sub-job with its slots.
type subJob struct {
	jobs.SubJob
	indexes
	queue
	counts
	Kept    int                 // the version that a run of a cron job keeps; 0: that of the job
	Due     time.Time           // when such a run was due
	Blocked bool                // the sub-jobs before it have not ended, or not as it needs
	Held    bool                // it is a gang that pauses
	Over    bool                // it is being ended early: nothing more of it begins
	AtAgent map[api.AgentID]int // indexes by agent, in a sub-job on each agent
	Pace    pace                // for copies of slow tasks
	Survey  work.Survey         // of the slots, in a change to another version
}

func newSubJob(planned jobs.SubJob) *subJob {
	return &subJob{SubJob: planned, indexes: indexes{Parts: make(map[int]*part)}, queue: queue{Lines: make(map[int][]*slot), Queued: make(map[int]int)},
		counts: counts{Places: make(map[string]int)}, AtAgent: make(map[api.AgentID]int)}
}

// beginSlot makes a slot for an index.
func (sub *subJob) beginSlot(index, version int) *slot {
	s := &slot{Index: index, Version: version}
	sub.insertSlot(s)
	return s
}

// insertSlot adds a slot.
func (sub *subJob) insertSlot(s *slot) {
	sub.addIndex(s)
	sub.add(s, 1)
	sub.Survey.Touch(s.Index)
}

// dropSlot removes a slot that has no task.
func (sub *subJob) dropSlot(s *slot) {
	sub.unqueueSlot(s)
	sub.endPause(s)
	sub.add(s, -1)
	sub.Survey.Touch(s.Index)
	sub.removeIndex(s)
	if sub.AtAgent[s.Agent] == s.Index {
		delete(sub.AtAgent, s.Agent)
	}
}

// endPause ends the pause of a slot.
func (sub *subJob) endPause(s *slot) {
	if !s.Pause.IsZero() {
		s.Pause = time.Time{}
		sub.Pausing--
	}
}

// pauseSlot lets the slot wait before it asks for an agent again.
func (sub *subJob) pauseSlot(s *slot, until time.Time) {
	sub.endPause(s)
	s.Pause = until
	sub.Pausing++
}

// counts are sums over the slots of a sub-job.
type counts struct {
	Busy    int            // number of tasks
	Running int            // number of indexes whose task is RUNNING
	Pausing int            // number of indexes that pause before another attempt
	Places  map[string]int // number of tasks by place
	Avoid   int            // number of indexes that avoid an agent
}

// add counts what the slot has, or no longer has (by -1).
func (c *counts) add(s *slot, by int) {
	for _, a := range s.Attempts {
		if a.Missed {
			continue
		}
		c.Busy += by
		if c.Places[a.Place] += by; c.Places[a.Place] == 0 {
			delete(c.Places, a.Place)
		}
	}
	if live := s.live(); live != nil && live.State == api.TaskRunning {
		c.Running += by
	}
	if s.Avoids != "" {
		c.Avoid += by
	}
}

// recountSlot changes what a slot has of what is counted.
func (sub *subJob) recountSlot(s *slot, change func()) {
	sub.add(s, -1)
	change()
	sub.add(s, 1)
	sub.Survey.Touch(s.Index)
}

// attachTask gives the slot a task.
func (sub *subJob) attachTask(s *slot, a *attempt) {
	sub.unqueueSlot(s)
	sub.endPause(s)
	sub.recountSlot(s, func() { s.Add(a) })
}

// detachTask takes a task away from the slot.
func (sub *subJob) detachTask(s *slot, a *attempt) { sub.recountSlot(s, func() { s.Remove(a) }) }

// setMissed notes whether a task of the slot is missed.
func (sub *subJob) setMissed(s *slot, a *attempt, missed bool) {
	sub.recountSlot(s, func() { a.Missed = missed })
}

// avoidAgent lets the slot avoid an agent; "": none any more.
func (sub *subJob) avoidAgent(s *slot, agent api.AgentID) {
	sub.recountSlot(s, func() { s.Avoids = agent })
}

// nextSlot returns the slot that the agent gets; nil: one that has not begun.
func (sub *subJob) nextSlot(version int, agent api.AgentID) *slot {
	if !sub.EachAgent || agent == "" {
		return sub.firstQueued(version, agent)
	}
	if s := sub.slotAt(agent); s != nil && s.waits(version) {
		return s
	}
	return nil
}

// countFresh returns how many indexes may begin now.
func (sub *subJob) countFresh() int {
	switch {
	case sub.EachAgent: // nobody knows how many agents there will be
		return max(0, jobs.TasksMax-sub.Slots)
	case sub.Together && (sub.Held || sub.Next > 0 || sub.Slots > 0): // all members begin together
		return 0
	case sub.Together:
		return sub.Tasks
	}
	if sub.Keep || sub.Blocked || sub.Over || sub.Failed > sub.Failures {
		return 0 // all have begun, or none may begin
	}
	return max(0, min(sub.AtOnce-sub.Slots, sub.Tasks-sub.Next))
}

const (
	goesOn end = iota
	endedWell
	endedBadly
	skipped
)

// ownEnd returns how far the sub-job has come by its own tasks.
func (sub *subJob) ownEnd() end {
	switch {
	case sub.Keep || sub.Slots > 0:
		return goesOn
	case sub.Failed > sub.Failures:
		return endedBadly
	case sub.Done+sub.Failed == sub.Tasks:
		return endedWell
	}
	return goesOn
}

// foldPart forgets a part whose indexes have all ended; false: some have not.
func (sub *subJob) foldPart(number int) bool {
	p := sub.Parts[number]
	last := min((number+1)*partSlots, sub.Tasks)
	if p == nil || len(p.Slots) > 0 || sub.Keep || sub.Together || sub.Next < last {
		return false
	}
	for index := number * partSlots; index < last; index++ {
		if !sub.hasEnded(index) {
			return false
		}
	}
	sub.Folded.Parts = sub.Folded.Parts.Union(numberOf(number))
	sub.Folded.Done += p.Done.count()
	sub.Folded.Failed += p.Failed.count()
	delete(sub.Parts, number)
	return true
}

// slotAt returns the slot of the agent; nil: it has none.
func (sub *subJob) slotAt(agent api.AgentID) *slot {
	if index, is := sub.AtAgent[agent]; is {
		return sub.slotOf(index)
	}
	return nil
}

// bindAgent gives the slot to the agent.
func (sub *subJob) bindAgent(s *slot, agent api.AgentID) {
	if sub.EachAgent {
		s.Agent = agent
		sub.AtAgent[agent] = s.Index
	}
}

// renewSlot removes a slot without a task, so that it does not hold up a change. If the slot's agent is silent, the slot
// stays and gets the new version, so that an older task that comes back is ended.
func (sub *subJob) renewSlot(s *slot, version int) {
	if len(s.Attempts) == 0 {
		sub.dropSlot(s)
		return
	}
	sub.unqueueSlot(s)
	s.Version, s.Trial = version, false
}
