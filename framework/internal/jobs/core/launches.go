package core

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// launches makes tasks: what an agent would get, and who gets it. An attempt is in the store before it is dispatched.
type launches struct {
	*base
	steps   *steps
	rolling *rolling
	gangs   *gangs
}

// assignGang gives all members to agents. That is in the store before any member is dispatched.
func (r *launches) assignGang(e AssignedGang) {
	sub := r.subJobNamed(e.SubJob)
	if sub == nil || r.Phase != jobs.Running || !sub.Together || sub.countFresh() != len(e.Members) || e.Version != r.Version {
		return
	}
	var dispatches []Effect
	for index, member := range e.Members {
		s := sub.beginSlot(index, e.Version)
		s.Tries = r.gangs.Gang.Row + 1
		dispatches = append(dispatches, r.launchAttempt(sub, s, sub.nextAttempt(index), member))
	}
	r.emitEffects(dispatches...)
}

// pickIndex returns which index of the sub-job gets the next task of the ask on that agent, and which try of it that is; "":
// on any agent.
func (r *launches) pickIndex(sub *subJob, ask Ask, agent api.AgentID) (index, try int, is bool) {
	if sub == nil || r.Phase != jobs.Running {
		return 0, 0, false
	}
	s := sub.nextSlot(ask.Version, agent)
	if ask.Copy {
		s = sub.nextWish(ask.Version, agent)
	}
	switch {
	case s != nil:
		return s.Index, s.Tries + 1, true
	case ask.Copy, ask.Version != r.versionOf(sub), sub.countFresh() == 0, sub.slotAt(agent) != nil: // that one has an index
		return 0, 0, false
	}
	return sub.Next, 1, true
}

// peekTask returns the task for the next Assigned of the ask on that agent; "": on any agent.
func (r *launches) peekTask(ask Ask, agent api.AgentID) (task api.Task, is bool) {
	sub := r.subJobNamed(ask.SubJob)
	index, try, is := r.pickIndex(sub, ask, agent)
	if is {
		task = r.makeTask(sub, ask.Version, index, sub.nextAttempt(index), try)
	}
	return task, is
}

// VersionLabel is a label of each task, beside api.JobLabel.
const VersionLabel = "tender.job.version"

func (r *launches) makeTask(sub *subJob, version, index, attempt, try int) api.Task {
	spec := r.taskOf(sub, version)
	task := spec.APITask()
	task.ID, task.Name, task.Owner = r.taskID(sub, index, attempt), r.Job.Name, r.Versions[version].Owner
	if len(r.Subs) > 1 || r.Job.Cron != nil {
		task.Name += "." + sub.Name
	}
	if sub.Tasks > 1 && !sub.EachAgent {
		task.Name += "-" + strconv.Itoa(index)
	}
	if spec.Spread != "" {
		task.Group = r.Job.Name + "." + sub.Name
	}
	task.Labels = withWords(task.Labels, map[string]string{api.JobLabel: r.Job.Name, VersionLabel: strconv.Itoa(version)})
	task.Command.Env = withWords(task.Command.Env, map[string]string{
		"TENDER_JOB_NAME": r.Job.Name, "TENDER_JOB_SUBJOB": sub.Name, "TENDER_JOB_INDEX": strconv.Itoa(index),
		"TENDER_JOB_TASKS": strconv.Itoa(sub.Tasks), "TENDER_JOB_ATTEMPT": strconv.Itoa(try), "TENDER_JOB_VERSION": strconv.Itoa(version),
	})
	if sub.Kept > 0 {
		task.Command.Env["TENDER_JOB_DUE"] = timeText(sub.Due)
	}
	if sub.EachAgent {
		delete(task.Command.Env, "TENDER_JOB_TASKS")
	}
	for _, name := range sub.After {
		task.Command.Env["TENDER_JOB_AFTER_"+environmentName(name)] = r.steps.findEnds()[name].String()
	}
	return task
}

// environmentName returns a name in the form that environment variables have.
func environmentName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func withWords(words, more map[string]string) map[string]string {
	words = maps.Clone(words)
	if words == nil {
		words = make(map[string]string, len(more))
	}
	maps.Copy(words, more)
	return words
}

// assignTask gives the next task, or a copy, to an agent. That is in the store before the task is dispatched.
func (r *launches) assignTask(e Assigned) {
	sub := r.subJobNamed(e.SubJob)
	index, _, is := r.pickIndex(sub, Ask{SubJob: e.SubJob, Version: e.Version, Copy: e.Copy}, e.Agent)
	if !is || sub.Together {
		return
	}
	number := sub.nextAttempt(index)
	s := sub.slotOf(index)
	if s == nil {
		s = sub.beginSlot(index, e.Version)
		sub.bindAgent(s, e.Agent)
		s.Trial = sub.EachAgent && r.rolling.Roll.Active && !r.rolling.Roll.first()
		if sub.EachAgent {
			for _, number := range sub.dropEmptyParts() {
				r.savePart(sub, number*partSlots)
			}
		}
	}
	s.Tries++
	r.emitEffects(r.launchAttempt(sub, s, number, e))
}

// launchAttempt gives the slot its next task, and returns what launches that.
func (r *launches) launchAttempt(sub *subJob, s *slot, number int, to Assigned) Dispatch {
	sub.partOf(s.Index).Attempts = number
	a := &attempt{Attempt: work.Attempt{Number: number, Task: r.taskID(sub, s.Index, number), Agent: to.Agent, State: api.TaskStaging, Since: r.now},
		Try: s.Tries, Version: s.Version, Hostname: to.Hostname, Place: to.Place, Ports: to.Ports}
	if live := s.live(); live != nil { // it is a copy of that
		a.Version, a.Copying = live.Version, work.IsCopy
	}
	sub.attachTask(s, a)
	r.watchTime(sub, s, a)
	r.savePart(sub, s.Index)
	return Dispatch{Task: a.Task, Agent: a.Agent}
}

// watchTime sets the alarm for an attempt that may take only so long.
func (r *launches) watchTime(sub *subJob, s *slot, a *attempt) {
	if limit := time.Duration(r.taskOf(sub, a.Version).Timeout); limit > 0 && !sub.Keep {
		r.Alarms.set(alarm{At: r.dueAfter(a.Since, limit), Kind: timeOver, SubJob: sub.Name, Index: s.Index, Attempt: a.Number})
	}
}

func (r *launches) watchTimes(sub *subJob, s *slot) {
	for _, a := range s.Attempts {
		if !a.Missed {
			r.watchTime(sub, s, a)
		}
	}
}

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

// MayGoTo reports whether the next task of the ask may go to the agent.
func (m *JobMaster) MayGoTo(ask Ask, agent api.AgentID) bool {
	_, _, is := m.launches.pickIndex(m.subJobNamed(ask.SubJob), ask, agent)
	return is
}
