package core

import (
	"maps"
	mathbits "math/bits"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// partSlots is how many indexes have one record in the store.
const partSlots = 256

// subJob is a sub-job with its slots.
type subJob struct {
	jobs.SubJob
	Parts   map[int]*part
	Blocked bool // the sub-jobs before it have not ended, or not as it needs
	Held    bool // it is a gang that pauses
	Over    bool // it is being ended early: nothing more of it begins
	Next    int  // the lowest index that has not begun
	Folded  folded
	Done    int // indexes that ended well
	Failed  int // indexes that were given up

	Queues  map[int][]int       // indexes that wait for an agent, by version; some of them may no longer wait
	Queued  map[int]int         // how many indexes wait, by version
	Slots   int                 // number of indexes that have begun and not ended
	Busy    int                 // number of indexes that have a task
	Running int                 // number of indexes whose task is RUNNING
	Pausing int                 // number of indexes that pause before another attempt
	Places  map[string]int      // number of tasks by place
	AtAgent map[api.AgentID]int // indexes by agent, in a sub-job on each agent
	Avoid   int                 // number of indexes that avoid an agent
	Pace    pace                // for copies of slow tasks
	Survey  work.Survey         // of the slots, in a change to another version
}

// folded are parts whose indexes have all ended, and the counts of these.
type folded struct {
	Parts        api.Ranges // by their numbers
	Done, Failed int
}

// part is what one record of the store holds.
type part struct {
	Slots    map[int]*slot
	Done     bits // indexes that ended well
	Failed   bits // indexes that were given up
	Attempts int  // number of attempts so far; the next has one more
}

// bits is a set of indexes of a part.
type bits [partSlots / 64]uint64

func (b *bits) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bits) count() (n int) {
	for _, word := range b {
		n += mathbits.OnesCount64(word)
	}
	return n
}

// last returns the highest index, or -1.
func (b *bits) last() int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return i*64 + mathbits.Len64(b[i]) - 1
		}
	}
	return -1
}

func newSubJob(planned jobs.SubJob) *subJob {
	return &subJob{SubJob: planned, Parts: make(map[int]*part), Queues: make(map[int][]int), Queued: make(map[int]int),
		Places: make(map[string]int), AtAgent: make(map[api.AgentID]int)}
}

// partOf returns the part of an index; it makes the part if there is none.
func (s *subJob) partOf(index int) *part {
	number := index / partSlots
	p := s.Parts[number]
	if p == nil {
		p = &part{Slots: make(map[int]*slot)}
		s.Parts[number] = p
	}
	return p
}

// slotOf returns the slot of an index; nil: the index has not begun, or has ended.
func (s *subJob) slotOf(index int) *slot {
	if p := s.Parts[index/partSlots]; p != nil {
		return p.Slots[index]
	}
	return nil
}

// hasEnded reports whether the index has ended.
func (s *subJob) hasEnded(index int) bool {
	number := index / partSlots
	if s.Folded.Parts.Contains(numberOf(number)) {
		return true
	}
	p := s.Parts[number]
	return p != nil && (p.Done.has(index%partSlots) || p.Failed.has(index%partSlots))
}

// allSlots returns the slots by index.
func (s *subJob) allSlots() []*slot {
	var list []*slot
	for _, number := range slices.Sorted(maps.Keys(s.Parts)) {
		p := s.Parts[number]
		for _, index := range slices.Sorted(maps.Keys(p.Slots)) {
			list = append(list, p.Slots[index])
		}
	}
	return list
}

// beginSlot makes a slot for an index.
func (s *subJob) beginSlot(index, version int) *slot {
	one := &slot{Index: index, Version: version}
	s.insertSlot(one)
	return one
}

// insertSlot adds a slot.
func (s *subJob) insertSlot(one *slot) {
	s.partOf(one.Index).Slots[one.Index] = one
	s.Slots++
	s.Next = max(s.Next, one.Index+1)
	s.countSlot(one, 1)
}

// dropSlot removes a slot that has no task.
func (s *subJob) dropSlot(one *slot) {
	s.unqueueSlot(one)
	s.endPause(one)
	s.countSlot(one, -1)
	delete(s.partOf(one.Index).Slots, one.Index)
	if s.AtAgent[one.Agent] == one.Index {
		delete(s.AtAgent, one.Agent)
	}
	s.Slots--
}

// queueSlot lets the slot wait for an agent.
func (s *subJob) queueSlot(one *slot) {
	if one.Queued {
		return
	}
	one.Queued = true
	s.Queues[one.Version] = append(s.Queues[one.Version], one.Index)
	s.Queued[one.Version]++
}

// unqueueSlot ends the slot's wait. Its entry in the queue is skipped later.
func (s *subJob) unqueueSlot(one *slot) {
	if !one.Queued {
		return
	}
	one.Queued = false
	if s.Queued[one.Version]--; s.Queued[one.Version] == 0 {
		delete(s.Queued, one.Version)
		delete(s.Queues, one.Version)
	}
}

// endPause ends the pause of a slot.
func (s *subJob) endPause(one *slot) {
	if !one.Pause.IsZero() {
		one.Pause = time.Time{}
		s.Pausing--
	}
}

// pauseSlot lets the slot wait before it asks for an agent again.
func (s *subJob) pauseSlot(one *slot, until time.Time) {
	s.endPause(one)
	one.Pause = until
	s.Pausing++
}

// countSlot counts what the slot has into the sums of the sub-job, or out of them (by -1). Who changes it counts it out
// before, and in again.
func (s *subJob) countSlot(one *slot, by int) {
	s.Survey.Touch(one.Index)
	for _, a := range one.Attempts {
		if a.Missed {
			continue
		}
		s.Busy += by
		if s.Places[a.Place] += by; s.Places[a.Place] == 0 {
			delete(s.Places, a.Place)
		}
	}
	if live := one.live(); live != nil && live.State == api.TaskRunning {
		s.Running += by
	}
	if one.Avoids != "" {
		s.Avoid += by
	}
}

// attachTask gives the slot a task.
func (s *subJob) attachTask(one *slot, a *attempt) {
	s.unqueueSlot(one)
	s.endPause(one)
	s.countSlot(one, -1)
	one.Add(a)
	s.countSlot(one, 1)
}

// detachTask takes a task away from the slot.
func (s *subJob) detachTask(one *slot, a *attempt) {
	s.countSlot(one, -1)
	one.Remove(a)
	s.countSlot(one, 1)
}

// setMissed notes whether a task of the slot is missed.
func (s *subJob) setMissed(one *slot, a *attempt, missed bool) {
	s.countSlot(one, -1)
	a.Missed = missed
	s.countSlot(one, 1)
}

// avoidAgent lets the slot avoid an agent; "": none any more.
func (s *subJob) avoidAgent(one *slot, agent api.AgentID) {
	s.countSlot(one, -1)
	one.Avoids = agent
	s.countSlot(one, 1)
}

// headOfQueue returns the slot that has waited for longest, of those that do not avoid the agent; nil: no slot of the version
// waits for it.
func (s *subJob) headOfQueue(version int, agent api.AgentID) *slot {
	for queue := s.Queues[version]; len(queue) > 0; queue = s.Queues[version] {
		one := s.slotOf(queue[0])
		if one != nil && one.Queued && one.Version == version {
			if agent != "" && one.Avoids == agent {
				return s.slotBehind(queue, version, agent)
			}
			return one
		}
		s.Queues[version] = queue[1:]
	}
	return nil
}

// slotBehind returns the first slot of a queue that waits and does not avoid the agent; nil: there is none.
func (s *subJob) slotBehind(queue []int, version int, agent api.AgentID) *slot {
	for _, index := range queue {
		if one := s.slotOf(index); one != nil && one.Queued && one.Version == version && one.Avoids != agent {
			return one
		}
	}
	return nil
}

// nextSlot returns the slot that the agent gets; nil: one that has not begun.
func (s *subJob) nextSlot(version int, agent api.AgentID) *slot {
	if !s.EachAgent || agent == "" {
		return s.headOfQueue(version, agent)
	}
	if one := s.slotAt(agent); one != nil && one.Queued && one.Version == version {
		return one
	}
	return nil
}

// countFresh returns how many indexes may begin now.
func (s *subJob) countFresh() int {
	switch {
	case s.EachAgent:
		return s.freshOnAgents()
	case s.Together:
		return s.freshGang()
	}
	if s.Keep || s.Blocked || s.Over || s.Failed > s.Failures {
		return 0 // all have begun, or none may begin
	}
	return max(0, min(s.AtOnce-s.Slots, s.Tasks-s.Next))
}

// end says how far a sub-job has come that can end.
type end uint8

const (
	goesOn end = iota
	endedWell
	endedBadly
	skipped
)

func (e end) String() string {
	return [...]string{goesOn: "running", endedWell: success, endedBadly: "failure", skipped: "skipped"}[e]
}

// success is the state, as people see it, of a sub-job or a run that has ended well.
const success = "success"

// ownEnd returns how far the sub-job has come by its own tasks.
func (s *subJob) ownEnd() end {
	switch {
	case s.Keep || s.Slots > 0:
		return goesOn
	case s.Failed > s.Failures:
		return endedBadly
	case s.Done+s.Failed == s.Tasks:
		return endedWell
	}
	return goesOn
}

// foldPart forgets a part whose indexes have all ended; false: some have not.
func (s *subJob) foldPart(number int) bool {
	p := s.Parts[number]
	last := min((number+1)*partSlots, s.Tasks)
	if p == nil || len(p.Slots) > 0 || s.Keep || s.Together || s.Next < last {
		return false
	}
	for index := number * partSlots; index < last; index++ {
		if !s.hasEnded(index) {
			return false
		}
	}
	s.Folded.Parts = s.Folded.Parts.Union(numberOf(number))
	s.Folded.Done += p.Done.count()
	s.Folded.Failed += p.Failed.count()
	delete(s.Parts, number)
	return true
}

// dropParts reduces the sub-job to its counts, and returns the deletions of its records.
func (s *subJob) dropParts() (saves []Effect) {
	s.Folded.Done, s.Folded.Failed = s.Done, s.Failed
	numbers := slices.Sorted(maps.Keys(s.Parts))
	clear(s.Parts)
	for _, number := range numbers {
		saves = append(saves, Save{partKey(s.Name, number)})
	}
	return saves
}

// numberOf returns the range that is one part.
func numberOf(part int) api.Ranges { return api.Ranges{{Begin: uint64(part), End: uint64(part)}} }
