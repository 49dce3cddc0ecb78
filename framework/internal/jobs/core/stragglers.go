package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// stragglers finds the tasks that are to get a copy.
type stragglers struct{ *base }

// A straggler is a task that takes much longer than the others took (Speculate). It gets one copy, on another agent.
// Whichever of the two ends well first counts; the other is killed and counts for nothing. The rule is [work.Pace].

// pace is how quickly the tasks of a sub-job end, and which are too slow. A manager that takes over measures anew.
type pace struct {
	work.Pace
	Wishes []int // indexes that should get a copy; some of them may no longer need one
}

// copyStragglers finds the stragglers, and the time when the next one will be found, once three of four indexes have ended well
// and nothing else waits.
func (r *stragglers) copyStragglers(sub *subJob) {
	p := &sub.Pace
	if sub.Speculate <= 0 || r.Phase != jobs.Running || !p.Asks(r.now, sub.Done, sub.Tasks, sub.countFresh() > 0 || len(sub.Queued) > 0) {
		return
	}
	running, copies, slow := sub.findStragglers()
	since := make([]time.Time, len(slow))
	for i, s := range slow {
		since[i] = s.live().Running
	}
	for _, s := range slow[:p.Stragglers(r.now, sub.Speculate, since, running, copies)] {
		live := s.live()
		live.Copying = work.WantsCopy
		p.Wishes = append(p.Wishes, s.Index)
		r.addNote("%s runs for %v, half of the others took no more than %v; it gets a copy", live.Task, r.now.Sub(live.Running), p.Median())
		r.savePart(sub, s.Index)
	}
	if !p.Check.IsZero() {
		r.Alarms.set(alarm{At: p.Check, Kind: straggles, SubJob: sub.Name})
	}
}

// findStragglers counts the tasks that run, and the copies that run or wait. It also lists the slots that may be copied,
// the longest running first.
func (sub *subJob) findStragglers() (running, copies int, slow []*slot) {
	waiting := len(sub.listWishes())
	for _, s := range sub.allSlots() {
		live := s.live()
		if live != nil && len(s.tasks()) > 1 {
			copies++
		}
		if live != nil && live.Copying == work.NoCopy && live.Kill == work.NotKilled && !live.Up.IsZero() {
			slow = append(slow, s)
		}
	}
	slices.SortStableFunc(slow, func(a, b *slot) int { return a.live().Running.Compare(b.live().Running) })
	return sub.Busy - copies, copies + waiting, slow
}

// listWishes returns the slots that wait for an agent for their copy.
func (sub *subJob) listWishes() (list []*slot) {
	sub.Pace.Wishes = slices.DeleteFunc(sub.Pace.Wishes, func(index int) bool {
		s := sub.slotOf(index)
		wishes := s != nil && s.busy() && s.live().Copying == work.WantsCopy && s.live().Kill == work.NotKilled
		if wishes {
			list = append(list, s)
		}
		return !wishes
	})
	return list
}

// nextWish returns the next slot whose copy may run on the agent; "": on any agent.
func (sub *subJob) nextWish(version int, agent api.AgentID) *slot {
	for _, s := range sub.listWishes() {
		if s.live().Version == version && s.live().Agent != agent {
			return s
		}
	}
	return nil
}

// countWishes returns how many copies wait, by version.
func (sub *subJob) countWishes() map[int]int {
	counts := make(map[int]int)
	for _, s := range sub.listWishes() {
		counts[s.live().Version]++
	}
	return counts
}
