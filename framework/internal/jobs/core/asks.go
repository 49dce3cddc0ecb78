package core

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
)

// GangTasks returns the tasks of a gang that was just assigned, by index. Each task is told of all members.
func (m *JobMaster) GangTasks(subJob string) (tasks []api.Task) {
	sub := m.subJobNamed(subJob)
	if sub == nil {
		return nil
	}
	list := sub.listMembers()
	for _, s := range sub.allSlots() {
		task := m.launches.makeTask(sub, s.Version, s.Index, s.live().Number, s.live().Try)
		task.Command.Env["TENDER_JOB_MEMBERS"] = list
		tasks = append(tasks, withMembersFile(task))
	}
	return tasks
}

// Ask is what waits in a sub-job for agents.
type Ask struct {
	SubJob  string
	Version int
	Role    api.Role // of the version
	Count   int
	Task    jobs.Task
	Group   string // name of the tasks that are spread together
	Gang    bool   // all of them have to begin together
	Avoids  bool   // some of them avoid an agent
	Copy    bool   // for copies of slow tasks, each on another agent than the task
}

// Asks returns what waits for agents.
func (m *JobMaster) Asks() (asks []Ask) {
	if m.Phase != jobs.Running {
		return nil
	}
	for _, sub := range m.Subs {
		if sub.Blocked { // after a crash the store may have one of its tasks, and not the ends for which it waits
			continue
		}
		add := func(copies bool, counts map[int]int) {
			for _, version := range slices.Sorted(maps.Keys(counts)) {
				asks = append(asks, Ask{SubJob: sub.Name, Version: version, Role: m.Versions[version].Job.Role, Count: counts[version],
					Task: m.taskOf(sub, version), Group: m.Job.Name + "." + sub.Name, Gang: sub.Together, Avoids: sub.Avoid > 0 && !copies, Copy: copies})
			}
		}
		counts := sub.Queued
		if fresh := sub.countFresh(); fresh > 0 {
			counts = maps.Clone(sub.Queued)
			counts[m.versionOf(sub)] += fresh
		}
		add(false, counts)
		add(true, sub.countWishes())
	}
	return asks
}

// Place returns how many tasks of the sub-job are in a place, as their Spread counts places.
func (m *JobMaster) Place(subJob, place string) int {
	if sub := m.subJobNamed(subJob); sub != nil {
		return sub.Places[place]
	}
	return 0
}

// Busy returns how many tasks of the job have an agent.
func (m *JobMaster) Busy() (n int) {
	for _, sub := range m.Subs {
		n += sub.Busy
	}
	return n
}

// Peek returns the task for the next Assigned of the ask on that agent; "": on any agent.
func (m *JobMaster) Peek(ask Ask, agent api.AgentID) (task api.Task, is bool) {
	return m.launches.peekTask(ask, agent)
}

// Takes reports whether the next task of the ask may go to the agent.
func (m *JobMaster) Takes(ask Ask, agent api.AgentID) bool { return m.launches.mayTake(ask, agent) }
