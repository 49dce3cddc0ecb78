package core

import (
	"slices"

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
	for _, a := range work.FindStragglers(&p.Pace, r.now, sub.Speculate, sub.allAttempts()) {
		_, index, _, _ := r.parseTask(a.Task)
		p.Wishes = append(p.Wishes, index)
		r.addNote("%s runs for %v, half of the others took no more than %v; it gets a copy", a.Task, r.now.Sub(a.Running), p.Median())
		r.savePart(sub, index)
	}
	if !p.Check.IsZero() {
		r.Alarms.set(alarm{At: p.Check, Kind: straggles, SubJob: sub.Name})
	}
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
