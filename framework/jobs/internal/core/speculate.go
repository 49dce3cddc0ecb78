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

// look finds the stragglers, and the time when the next one will be found, once three of four indexes have ended well
// and nothing else waits.
func (c copying) look() {
	m, s, p := c.JobMaster, c.s, &c.s.Pace
	if s.Speculate <= 0 || m.Phase != jobs.Running || !p.Asks(m.now, s.Done, s.Tasks, s.fresh() > 0 || len(s.Queued) > 0) {
		return
	}
	running, copies, slow := s.straggling()
	since := make([]time.Time, len(slow))
	for i, one := range slow {
		since[i] = one.Live.Running
	}
	for _, one := range slow[:p.Stragglers(m.now, s.Speculate, since, running, copies)] {
		one.Slow = wantsCopy
		p.Wishes = append(p.Wishes, one.Index)
		m.note("%s runs for %v, half of the others took no more than %v; it gets a copy", one.Live.Task, m.now.Sub(one.Live.Running), p.Median())
		m.savePart(s, one.Index)
	}
	if !p.Check.IsZero() {
		m.Alarms.set(alarm{At: p.Check, Kind: straggles, SubJob: s.Name})
	}
}

// straggling counts the tasks that run, and the copies that run or wait. It also lists the slots that may be copied,
// the longest running first.
func (s *subJob) straggling() (running, copies int, slow []*slot) {
	waiting := len(s.wishes())
	for _, one := range s.all() {
		live := one.Live
		if one.Copy != nil {
			copies++
		}
		if live != nil && one.Copy == nil && one.Slow == notSlow && live.Killed == notKilled && !live.Running.IsZero() {
			slow = append(slow, one)
		}
	}
	slices.SortStableFunc(slow, func(a, b *slot) int { return a.Live.Running.Compare(b.Live.Running) })
	return s.Busy - copies, copies + waiting, slow
}

// wishes returns the slots that wait for an agent for their copy.
func (s *subJob) wishes() (list []*slot) {
	s.Pace.Wishes = slices.DeleteFunc(s.Pace.Wishes, func(index int) bool {
		one := s.slot(index)
		wishes := one != nil && one.Slow == wantsCopy && one.Live != nil && one.Live.Killed == notKilled
		if wishes {
			list = append(list, one)
		}
		return !wishes
	})
	return list
}

// wish returns the next slot whose copy may run on the agent; "": on any agent.
func (s *subJob) wish(version int, agent api.AgentID) *slot {
	for _, one := range s.wishes() {
		if one.Live.Version == version && one.Live.Agent != agent {
			return one
		}
	}
	return nil
}

// asks returns what the sub-job's copies wait for.
func (c copying) asks() (asks []Ask) {
	counts := make(map[int]int)
	for _, one := range c.s.wishes() {
		counts[one.Live.Version]++
	}
	for _, version := range slices.Sorted(maps.Keys(counts)) {
		asks = append(asks, Ask{SubJob: c.s.Name, Version: version, Role: c.Versions[version].Job.Role, Count: counts[version], Task: c.task(c.s, version), Group: c.Job.Name + "." + c.s.Name,
			Copy: true})
	}
	return asks
}

// peek returns the task for the next Assigned copy of the version on that agent; "": on any agent.
func (c copying) peek(version int, agent api.AgentID) (task api.Task, is bool) {
	one := c.s.wish(version, agent)
	if one == nil {
		return task, false
	}
	return c.apiTask(c.s, version, one.Index, c.s.part(one.Index).Attempts+1, one.Tries+1), true
}

// assign gives a copy to an agent. That is in the store before the copy is dispatched.
func (c copying) assign(task api.TaskID, e Assigned) {
	_, index, number, _ := c.parseTask(task)
	c.s.part(index).Attempts = number
	one := c.s.slot(index)
	one.Tries++
	c.s.attachCopy(one, &attempt{Number: number, Try: one.Tries, Task: task, Agent: e.Agent, Hostname: e.Hostname, Place: e.Place, Ports: e.Ports,
		Version: e.Version, State: api.TaskStaging, Since: c.now})
	c.savePart(c.s, index)
	c.do(Dispatch{Task: task, Agent: e.Agent})
}

func (s *subJob) attachCopy(one *slot, second *attempt) {
	one.Copy, one.Slow = second, hadItsCopy
	s.Busy++
	s.Places[second.Place]++
}

func (s *subJob) detachCopy(one *slot) *attempt {
	second := one.Copy
	one.Copy = nil
	s.Busy--
	if s.Places[second.Place]--; s.Places[second.Place] == 0 {
		delete(s.Places, second.Place)
	}
	return second
}

// end ends the slot's copy, if there is one. Later statuses of the copy are those of a stray.
func (c copying) end(one *slot) {
	if one.Copy != nil {
		c.do(Kill{c.s.detachCopy(one).Task})
	}
}

// promote makes the copy the slot's task, because the original has ended and not well; false: there is no copy.
func (c copying) promote(one *slot) bool {
	if one.Copy == nil {
		return false
	}
	c.s.attach(one, c.s.detachCopy(one))
	c.watchTime(c.s, one)
	return true
}

// hear handles a status of a slot's copy. If the copy ends well first, the original is killed. Any other end of the
// copy counts for nothing, and there is no second copy.
func (c copying) hear(one *slot, status api.Status) {
	second := one.Copy
	if status.State == api.TaskDropped {
		one.Tries--
	}
	switch {
	case status.State.Terminal() && work.Judge(work.NotKilled, status) == work.Well:
		c.note("%s was quicker than %s", second.Task, one.Live.Task)
		c.do(Kill{c.s.detach(one).Task})
		c.s.detachCopy(one)
		c.settle(c.s, one, true)
	case status.State.Settled() || status.State == api.TaskUnreachable:
		c.s.detachCopy(one)
		c.savePart(c.s, one.Index)
	default:
		if second.State = status.State; status.State == api.TaskRunning && second.Running.IsZero() {
			second.Running = c.now
		}
		if status.Hostname != "" {
			second.Hostname = status.Hostname
		}
		if len(status.Ports) > 0 {
			second.Ports = maps.Clone(status.Ports)
		}
	}
}
