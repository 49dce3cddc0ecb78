package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

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
	for _, s := range m.Subs {
		if s.Blocked { // after a crash the store may have one of its tasks, and not the ends for which it waits
			continue
		}
		counts := s.Queued
		if fresh := s.countFresh(); fresh > 0 {
			counts = maps.Clone(s.Queued)
			counts[m.Cron.versionOf(s, m.Version)] += fresh
		}
		for _, version := range slices.Sorted(maps.Keys(counts)) {
			asks = append(asks, Ask{SubJob: s.Name, Version: version, Role: m.Versions[version].Job.Role, Count: counts[version], Task: m.taskOf(s, version),
				Group: m.Job.Name + "." + s.Name, Gang: s.Together, Avoids: s.Avoid > 0})
		}
		asks = append(asks, copying{m, s}.listAsks()...)
	}
	return asks
}

// Place returns how many tasks of the sub-job are in a place, as their Spread counts places.
func (m *JobMaster) Place(subJob, place string) int {
	if s := m.subJobNamed(subJob); s != nil {
		return s.Places[place]
	}
	return 0
}

// Busy returns how many tasks of the job have an agent.
func (m *JobMaster) Busy() (n int) {
	for _, s := range m.Subs {
		n += s.Busy
	}
	return n
}

// Peek returns the task for the next Assigned of the ask on that agent; "": on any agent.
func (m *JobMaster) Peek(ask Ask, agent api.AgentID) (task api.Task, is bool) {
	s, version := m.subJobNamed(ask.SubJob), ask.Version
	if s == nil || m.Phase != jobs.Running {
		return task, false
	}
	if ask.Copy {
		return copying{m, s}.peekCopy(version, agent)
	}
	index, try := s.Next, 1
	if one := s.nextSlot(version, agent); one != nil {
		index, try = one.Index, one.Tries+1
	} else if version != m.Cron.versionOf(s, m.Version) || s.countFresh() == 0 {
		return task, false
	}
	attempts := 0
	if p := s.Parts[index/partSlots]; p != nil {
		attempts = p.Attempts
	}
	return m.apiTask(s, version, index, attempts+1, try), true
}

// VersionLabel is a label of each task, beside api.JobLabel.
const VersionLabel = "tender.job.version"

func (m *JobMaster) apiTask(s *subJob, version, index, attempt, try int) api.Task {
	spec := m.taskOf(s, version)
	task := spec.APITask()
	task.ID, task.Name, task.Owner = m.taskID(s, index, attempt), m.Job.Name, m.Versions[version].Owner
	if len(m.Subs) > 1 || m.Job.Cron != nil {
		task.Name += "." + s.Name
	}
	if s.Tasks > 1 && !s.EachAgent {
		task.Name += "-" + strconv.Itoa(index)
	}
	if spec.Spread != "" {
		task.Group = m.Job.Name + "." + s.Name
	}
	task.Labels = withWords(task.Labels, map[string]string{api.JobLabel: m.Job.Name, VersionLabel: strconv.Itoa(version)})
	task.Command.Env = withWords(task.Command.Env, map[string]string{
		"TENDER_JOB_NAME": m.Job.Name, "TENDER_JOB_SUBJOB": s.Name, "TENDER_JOB_INDEX": strconv.Itoa(index),
		"TENDER_JOB_TASKS": strconv.Itoa(s.Tasks), "TENDER_JOB_ATTEMPT": strconv.Itoa(try), "TENDER_JOB_VERSION": strconv.Itoa(version),
	})
	if at := m.Cron.find(s.Name); at >= 0 {
		task.Command.Env["TENDER_JOB_DUE"] = timeText(m.Cron.Runs[at].Due)
	}
	if s.EachAgent {
		delete(task.Command.Env, "TENDER_JOB_TASKS")
	}
	for _, name := range s.After {
		task.Command.Env["TENDER_JOB_AFTER_"+environmentName(name)] = m.endsOfSubJobs()[name].String()
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
func (m *JobMaster) assignTask(e Assigned) {
	ask := Ask{SubJob: e.SubJob, Version: e.Version, Copy: e.Copy}
	task, is := m.Peek(ask, e.Agent)
	s := m.subJobNamed(e.SubJob)
	if !is || s.Together || !m.Takes(ask, e.Agent) {
		return
	}
	_, index, number, _ := m.parseTask(task.ID)
	one := s.slotOf(index)
	if one == nil {
		one = s.beginSlot(index, e.Version)
		s.bindAgent(one, e.Agent)
		one.Trial = s.EachAgent && m.Roll.Active && !m.Roll.first()
		for _, number := range s.emptyParts() {
			delete(s.Parts, number)
			m.emit(Save{partKey(s.Name, number)})
		}
	}
	one.Tries++
	m.emit(m.launchAttempt(s, one, number, e))
}

// launchAttempt gives the slot its next task, and returns what launches that.
func (m *JobMaster) launchAttempt(s *subJob, one *slot, number int, to Assigned) Dispatch {
	s.partOf(one.Index).Attempts = number
	a := &attempt{Attempt: work.Attempt{Number: number, Task: m.taskID(s, one.Index, number), Agent: to.Agent, State: api.TaskStaging, Since: m.now},
		Try: one.Tries, Version: one.Version, Hostname: to.Hostname, Place: to.Place, Ports: to.Ports}
	if live := one.live(); live != nil { // it is a copy of that
		a.Version, a.Copying, live.Copying = live.Version, work.IsCopy, work.HadCopy
	}
	s.attachTask(one, a)
	m.watchTime(s, one, a)
	m.savePart(s, one.Index)
	return Dispatch{Task: a.Task, Agent: a.Agent}
}

// watchTime sets the alarm for an attempt that may take only so long.
func (m *JobMaster) watchTime(s *subJob, one *slot, a *attempt) {
	if limit := time.Duration(m.taskOf(s, a.Version).Timeout); limit > 0 && !s.Keep {
		m.Alarms.set(alarm{At: m.dueAfter(a.Since, limit), Kind: timeOver, SubJob: s.Name, Index: one.Index, Attempt: a.Number})
	}
}

func (m *JobMaster) watchTimes(s *subJob, one *slot) {
	for _, a := range one.Attempts {
		if !a.Missed {
			m.watchTime(s, one, a)
		}
	}
}

// findAttempt returns the attempt that a task is; nil: it does not belong to the job any more.
func (m *JobMaster) findAttempt(task api.TaskID) (s *subJob, one *slot, a *attempt) {
	s, index, _, ok := m.parseTask(task)
	if !ok {
		return s, nil, nil
	}
	if one = s.slotOf(index); one != nil {
		a = one.Of(task)
	}
	return s, one, a
}

// takeBackAssigned lets an assigned task that was not launched wait again.
func (m *JobMaster) takeBackAssigned(e Undispatched) {
	if s, one, a := m.findAttempt(e.Task); a != nil && !a.Missed {
		m.endAttempt(s, one, a, api.Status{Task: e.Task, State: api.TaskDropped, Message: e.Why})
	}
}

// hearStatus handles a status. The status is acknowledged when what it has changed is in the store.
func (m *JobMaster) hearStatus(status api.Status) {
	s, one, a := m.findAttempt(status.Task)
	switch {
	case a == nil:
		m.endStray(status)
		return
	case a.Missed:
		m.cameBack(s, one, a, status)
	case status.State.Settled():
		m.endAttempt(s, one, a, status)
	default:
		m.hearState(s, one, a, status)
	}
	m.emit(Acknowledge{status})
}

// endStray ends a task that no longer belongs to the job.
func (m *JobMaster) endStray(status api.Status) {
	if !status.State.Settled() {
		m.emit(Kill{status.Task})
	}
	m.emit(Acknowledge{status})
}

// hearState handles a state that is not terminal.
func (m *JobMaster) hearState(s *subJob, one *slot, a *attempt, status api.Status) {
	wasUp, wasSilent, runs := !a.Up.IsZero(), !a.Silent.IsZero(), a.State == api.TaskRunning
	checked := len(m.taskOf(s, a.Version).Checks) > 0
	a.Hear(status, checked, m.now)
	s.Survey.Touch(one.Index)
	if runs != (a.State == api.TaskRunning) && a == one.live() {
		s.Running += map[bool]int{true: -1, false: 1}[runs]
	}
	if status.State == api.TaskUnreachable {
		if !wasSilent {
			m.beginSilence(s, one, a)
		}
		return
	}
	a.Hostname = cmp.Or(status.Hostname, a.Hostname)
	if len(status.Ports) > 0 {
		a.Ports = maps.Clone(status.Ports)
	}
	if a.Said = ""; a.Up.IsZero() {
		a.Said = status.Message
	}
	if !wasUp && !a.Up.IsZero() {
		m.watchProof(s, one, a)
		copying{m, s}.copyStragglers()
	}
}

// lostAfter returns how long a task on a silent agent is awaited.
func (s *subJob) lostAfter() time.Duration { return time.Duration(s.Task.LostAfter) }

// beginSilence notes that the agent of a task is taken for dead. Nobody waits for a copy.
func (m *JobMaster) beginSilence(s *subJob, one *slot, a *attempt) {
	switch wait := s.lostAfter(); {
	case a != one.live():
		s.detachTask(one, a)
		m.savePart(s, one.Index)
	case a.Kill != work.NotKilled || wait == 0:
		m.giveUpSilent(s, one, a)
	case wait > 0:
		m.Alarms.set(alarm{At: m.now.Add(wait), Kind: lostLong, SubJob: s.Name, Index: one.Index, Attempt: a.Number})
	}
}

// giveUpSilent starts the slot's task elsewhere. Should a task come back that was missed before, it is a stray.
func (m *JobMaster) giveUpSilent(s *subJob, one *slot, a *attempt) {
	for _, older := range one.tasks() {
		if older.Missed {
			s.detachTask(one, older)
		}
	}
	s.setMissed(one, a, true)
	if a.Kill == work.NotKilled && !s.EachAgent {
		m.addNote("%s was on %s, which is silent; index %d of %s is started elsewhere", a.Task, a.Agent, one.Index, s.Name)
	}
	switch {
	case s.Together: // likewise
		s.dropSlot(one)
	case !s.EachAgent || m.Phase != jobs.Running:
		m.awaitNext(s, one, 0)
	case m.Roll.Active && one.Version != m.Version: // the change goes on without it
		s.renewSlot(one, m.Version)
	}
	m.savePart(s, one.Index)
}

// awaitNext lets a slot wait for its next task, if that is wanted and no copy goes on, after a pause.
func (m *JobMaster) awaitNext(s *subJob, one *slot, pause time.Duration) {
	if m.Phase != jobs.Running || s.Keep && one.Index >= s.Tasks || !s.Keep && s.Failed > s.Failures || s.Over {
		m.endAll(s, one)
		s.dropSlot(one)
		return
	}
	if one.busy() {
		return
	}
	if s.EachAgent && m.Roll.Active && one.Version != m.Version { // it takes no part in the change
		m.changeTo(s, one, m.Version)
		one.Trial = true
	}
	if pause <= 0 {
		m.awaitAgent(s, one)
		return
	}
	s.pauseSlot(one, m.now.Add(pause))
	m.Alarms.set(alarm{At: one.Pause, Kind: pauseOver, SubJob: s.Name, Index: one.Index})
}

// endAll ends the slot's tasks. Later statuses of theirs are those of strays.
func (m *JobMaster) endAll(s *subJob, one *slot) {
	for _, a := range one.tasks() {
		if !a.Missed {
			m.killAttempt(a, work.Unwanted)
			s.detachTask(one, a)
		}
	}
}

// cameBack handles a task whose agent was taken for dead. If another task was started in its place, one of the two is
// ended; both are if the job no longer wants one. If the older has ended well meanwhile, that counts.
func (m *JobMaster) cameBack(s *subJob, one *slot, older *attempt, status api.Status) {
	switch {
	case status.State == api.TaskUnreachable:
	case status.State == api.TaskFinished && !s.Keep:
		s.detachTask(one, older)
		m.settleIndex(s, one, true)
	case status.State.Settled():
		s.detachTask(one, older)
		if s.EachAgent && !one.busy() { // its agent may get another
			s.dropSlot(one)
		}
		m.savePart(s, one.Index)
	case older.Kill == work.NotKilled && m.takeBack(s, one, older, status):
		m.watchTime(s, one, older)
		m.addNote("%s is back on %s and goes on", older.Task, older.Agent)
		m.savePart(s, one.Index)
	default:
		if older.Kill == work.NotKilled && one.busy() {
			m.addNote("%s is back on %s; it ends, for index %d of %s was started elsewhere", older.Task, older.Agent, one.Index, s.Name)
		}
		m.killAttempt(older, work.Unwanted)
	}
}

// takeBack lets the slot's older task, which has come back with this status, go on in place of the one that was started
// elsewhere, or beside its copy; false: it is to be ended.
func (m *JobMaster) takeBack(s *subJob, one *slot, older *attempt, status api.Status) bool {
	if live := one.live(); live == nil && older.Version != one.Version || live != nil && live.Kill != work.NotKilled {
		return false
	}
	m.hearState(s, one, older, status)
	s.setMissed(one, older, false)
	stays, ends := one.Stays(s.Keep, func(a *attempt) bool { return a.Version == one.Version })
	if stays != older {
		s.setMissed(one, older, true)
		return false
	}
	for _, a := range ends {
		m.killAttempt(a, work.Unwanted)
		s.detachTask(one, a)
	}
	s.unqueueSlot(one)
	s.endPause(one)
	return true
}

// endAttempt handles the end of a slot's task.
func (m *JobMaster) endAttempt(s *subJob, one *slot, a *attempt, status api.Status) {
	if status.State == api.TaskDropped { // it never began
		one.Tries--
	}
	task := m.taskOf(s, a.Version)
	s.countSlot(one, -1)
	end := one.End(a, status, m.now, work.Rules{Service: s.Keep, Attempts: task.Attempts, Bound: s.EachAgent || s.Together, Backoff: backoffOf(task)})
	s.countSlot(one, 1)
	switch {
	case end.Verdict == work.Well && !(s.Together && m.Gang.Regroup):
		if s.Speculate > 0 && !a.Running.IsZero() {
			s.Pace.Note(m.now.Sub(a.Running))
		}
		if a.IsCopy() && one.busy() {
			m.addNote("%s was quicker than %s", a.Task, one.live().Task)
		}
		m.settleIndex(s, one, true)
		return
	case s.Together:
		m.memberOver(s, one, a, end.Verdict, wordsOf(a, status, task))
		return
	case end.Verdict == work.Ignored:
	case end.Verdict == work.Lost && s.EachAgent: // the agent may have left
		s.dropSlot(one)
		m.savePart(s, one.Index)
		return
	case end.Verdict == work.Lost:
		if blame := status.Reason.Blame(); one.Row == 1 && (blame == api.BlameTender || blame == api.BlameMachine) {
			m.addNote("%s: %s; that was not its fault, and it is tried again", a.Task, wordsOf(a, status, task))
		}
	default:
		one.Last = fmt.Sprintf("%s: %s", a.Task, wordsOf(a, status, task))
		m.addNote("%s", one.Last)
		if m.handleBad(s, one, a, status) {
			m.savePart(s, one.Index)
			return
		}
		if end.GivenUp {
			m.settleIndex(s, one, false)
			return
		}
	}
	if one.Avoids != "" && one.Row == work.AvoidAfter {
		m.addNote("index %d of %s has ended badly %d times in a row, the last time on %s; it goes to another agent, if one has room", one.Index, s.Name,
			one.Row, cmp.Or(a.Hostname, string(a.Agent)))
	}
	m.awaitNext(s, one, end.Pause)
	m.savePart(s, one.Index)
}

// backoffOf says how long an index waits before its next attempt.
func backoffOf(task jobs.Task) work.Backoff {
	return work.Backoff{First: time.Duration(task.Backoff), Max: time.Duration(task.BackoffMax)}
}

// wordsOf describes an end in words for people.
func wordsOf(live *attempt, status api.Status, task jobs.Task) string {
	if live.Kill == work.Overdue {
		return fmt.Sprintf("it took longer than %v", task.Timeout)
	}
	return work.Words(status)
}

// settleIndex ends an index, done or given up.
func (m *JobMaster) settleIndex(s *subJob, one *slot, done bool) {
	m.endAll(s, one)
	s.dropSlot(one)
	p := s.partOf(one.Index)
	if done {
		p.Done.set(one.Index % partSlots)
		s.Done++
	} else {
		p.Failed.set(one.Index % partSlots)
		s.Failed++
	}
	if s.foldPart(one.Index / partSlots) {
		m.saveHeader()
	}
	m.savePart(s, one.Index)
	copying{m, s}.copyStragglers()
}
