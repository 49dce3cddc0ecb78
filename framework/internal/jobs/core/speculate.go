package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// A straggler is a task that takes much longer than the others took (Speculate). It gets one copy, on another agent.
// Whichever of the two ends well first counts; the other is killed and counts for nothing. The rule is [work.Pace].

// pace is how quickly the tasks of a sub-job end, and which are too slow. A manager that takes over measures anew.
type pace struct {
	work.Pace
	Wishes []int // indexes that should get a copy; some of them may no longer need one
}

// copying handles the stragglers of a sub-job.
type copying struct {
	*JobMaster
	s *subJob
}

// copyStragglers finds the stragglers, and the time when the next one will be found, once three of four indexes have ended well
// and nothing else waits.
func (c copying) copyStragglers() {
	m, s, p := c.JobMaster, c.s, &c.s.Pace
	if s.Speculate <= 0 || m.Phase != jobs.Running || !p.Asks(m.now, s.Done, s.Tasks, s.countFresh() > 0 || len(s.Queued) > 0) {
		return
	}
	running, copies, slow := s.findStragglers()
	since := make([]time.Time, len(slow))
	for i, one := range slow {
		since[i] = one.live().Running
	}
	for _, one := range slow[:p.Stragglers(m.now, s.Speculate, since, running, copies)] {
		one.live().Copying = work.WantsCopy
		p.Wishes = append(p.Wishes, one.Index)
		m.addNote("%s runs for %v, half of the others took no more than %v; it gets a copy", one.live().Task, m.now.Sub(one.live().Running), p.Median())
		m.savePart(s, one.Index)
	}
	if !p.Check.IsZero() {
		m.Alarms.set(alarm{At: p.Check, Kind: straggles, SubJob: s.Name})
	}
}

// findStragglers counts the tasks that run, and the copies that run or wait. It also lists the slots that may be copied,
// the longest running first.
func (s *subJob) findStragglers() (running, copies int, slow []*slot) {
	waiting := len(s.listWishes())
	for _, one := range s.allSlots() {
		live := one.live()
		if live != nil && len(one.tasks()) > 1 {
			copies++
		}
		if live != nil && live.Copying == work.NoCopy && live.Kill == work.NotKilled && !live.Up.IsZero() {
			slow = append(slow, one)
		}
	}
	slices.SortStableFunc(slow, func(a, b *slot) int { return a.live().Running.Compare(b.live().Running) })
	return s.Busy - copies, copies + waiting, slow
}

// listWishes returns the slots that wait for an agent for their copy.
func (s *subJob) listWishes() (list []*slot) {
	s.Pace.Wishes = slices.DeleteFunc(s.Pace.Wishes, func(index int) bool {
		one := s.slotOf(index)
		wishes := one != nil && one.busy() && one.live().Copying == work.WantsCopy && one.live().Kill == work.NotKilled
		if wishes {
			list = append(list, one)
		}
		return !wishes
	})
	return list
}

// nextWish returns the next slot whose copy may run on the agent; "": on any agent.
func (s *subJob) nextWish(version int, agent api.AgentID) *slot {
	for _, one := range s.listWishes() {
		if one.live().Version == version && one.live().Agent != agent {
			return one
		}
	}
	return nil
}

// listAsks returns what the sub-job's copies wait for.
func (c copying) listAsks() (asks []Ask) {
	counts := make(map[int]int)
	for _, one := range c.s.listWishes() {
		counts[one.live().Version]++
	}
	for _, version := range slices.Sorted(maps.Keys(counts)) {
		asks = append(asks, Ask{SubJob: c.s.Name, Version: version, Role: c.Versions[version].Job.Role, Count: counts[version], Task: c.taskOf(c.s, version), Group: c.Job.Name + "." + c.s.Name,
			Copy: true})
	}
	return asks
}

// peekCopy returns the task for the next Assigned copy of the version on that agent; "": on any agent.
func (c copying) peekCopy(version int, agent api.AgentID) (task api.Task, is bool) {
	one := c.s.nextWish(version, agent)
	if one == nil {
		return task, false
	}
	return c.apiTask(c.s, version, one.Index, c.s.partOf(one.Index).Attempts+1, one.Tries+1), true
}
