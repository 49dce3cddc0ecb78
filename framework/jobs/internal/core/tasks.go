package core

import (
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
		if fresh := s.fresh(); fresh > 0 {
			counts = maps.Clone(s.Queued)
			counts[m.Cron.versionOf(s, m.Version)] += fresh
		}
		for _, version := range slices.Sorted(maps.Keys(counts)) {
			asks = append(asks, Ask{SubJob: s.Name, Version: version, Role: m.Versions[version].Job.Role, Count: counts[version], Task: m.task(s, version),
				Group: m.Job.Name + "." + s.Name, Gang: s.Together, Avoids: s.Avoid > 0})
		}
		asks = append(asks, copying{m, s}.asks()...)
	}
	return asks
}

// Place returns how many tasks of the sub-job are in a place, as their Spread counts places.
func (m *JobMaster) Place(subJob, place string) int {
	if s := m.sub(subJob); s != nil {
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
	s, version := m.sub(ask.SubJob), ask.Version
	if s == nil || m.Phase != jobs.Running {
		return task, false
	}
	if ask.Copy {
		return copying{m, s}.peek(version, agent)
	}
	index, try := s.Next, 1
	if one := s.next(version, agent); one != nil {
		index, try = one.Index, one.Tries+1
	} else if version != m.Cron.versionOf(s, m.Version) || s.fresh() == 0 {
		return task, false
	}
	attempts := 0
	if p := s.Parts[index/partSlots]; p != nil {
		attempts = p.Attempts
	}
	return m.apiTask(s, version, index, attempts+1, try), true
}

// The labels of each task.
const (
	JobLabel     = "tender.job"
	VersionLabel = "tender.job.version"
)

func (m *JobMaster) apiTask(s *subJob, version, index, attempt, try int) api.Task {
	spec := m.task(s, version)
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
	task.Labels = with(task.Labels, map[string]string{JobLabel: m.Job.Name, VersionLabel: strconv.Itoa(version)})
	task.Command.Env = with(task.Command.Env, map[string]string{
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
		task.Command.Env["TENDER_JOB_AFTER_"+environmentName(name)] = m.ends()[name].String()
	}
	return task
}

// environmentName returns a name in the form that environment variables have.
func environmentName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func with(words, more map[string]string) map[string]string {
	words = maps.Clone(words)
	if words == nil {
		words = make(map[string]string, len(more))
	}
	maps.Copy(words, more)
	return words
}

// assign gives the next task to an agent. That is in the store before the task is dispatched.
func (m *JobMaster) assign(e Assigned) {
	ask := Ask{SubJob: e.SubJob, Version: e.Version, Copy: e.Copy}
	task, is := m.Peek(ask, e.Agent)
	s := m.sub(e.SubJob)
	if !is || s.Together || !m.Takes(ask, e.Agent) {
		return
	}
	if e.Copy {
		copying{m, s}.assign(task.ID, e)
		return
	}
	_, index, number, _ := m.parseTask(task.ID)
	one := s.slot(index)
	if one == nil {
		one = s.begin(index, e.Version)
		s.bind(one, e.Agent)
		one.Trial = s.EachAgent && m.Roll.Active && !m.Roll.first()
		for _, number := range s.emptyParts() {
			delete(s.Parts, number)
			m.do(Save{partKey(s.Name, number)})
		}
	}
	s.part(index).Attempts = number
	one.Tries++
	one.Slow = notSlow
	s.avoid(one, "")
	live := &attempt{Number: number, Try: one.Tries, Task: task.ID, Agent: e.Agent, Hostname: e.Hostname, Place: e.Place, Ports: e.Ports, Version: e.Version,
		State: api.TaskStaging, Since: m.now}
	s.attach(one, live)
	m.watchTime(s, one)
	m.savePart(s, index)
	m.do(Dispatch{Task: task.ID, Agent: e.Agent})
}

// watchTime sets the alarm for an attempt that may take only so long.
func (m *JobMaster) watchTime(s *subJob, one *slot) {
	if limit := time.Duration(m.task(s, one.Live.Version).Timeout); limit > 0 && !s.Keep {
		m.Alarms.set(alarm{At: m.after(one.Live.Since, limit), Kind: timeOver, SubJob: s.Name, Index: one.Index, Attempt: one.Live.Number})
	}
}

// undispatched lets an assigned task that was not launched wait again.
func (m *JobMaster) undispatched(e Undispatched) {
	s, index, _, ok := m.parseTask(e.Task)
	if !ok {
		return
	}
	status := api.Status{Task: e.Task, State: api.TaskDropped, Message: e.Why}
	switch one := s.slot(index); {
	case one == nil:
	case one.Live != nil && one.Live.Task == e.Task:
		m.over(s, one, status)
	case one.Copy != nil && one.Copy.Task == e.Task:
		copying{m, s}.hear(one, status)
	}
}

// hear handles a status. The status is acknowledged when what it has changed is in the store.
func (m *JobMaster) hear(status api.Status) {
	s, index, _, ok := m.parseTask(status.Task)
	if !ok {
		m.stray(status)
		return
	}
	one := s.slot(index)
	ends := status.State.Settled()
	switch {
	case one == nil:
		m.stray(status)
		return
	case one.Live != nil && one.Live.Task == status.Task:
		if ends {
			m.over(s, one, status)
		} else {
			m.goesOn(s, one, status)
		}
	case one.Copy != nil && one.Copy.Task == status.Task:
		copying{m, s}.hear(one, status)
	case one.Lost != nil && one.Lost.Task == status.Task:
		m.cameBack(s, one, status)
	default:
		m.stray(status)
		return
	}
	m.do(Acknowledge{status})
}

// stray ends a task that no longer belongs to the job.
func (m *JobMaster) stray(status api.Status) {
	if !status.State.Settled() {
		m.do(Kill{status.Task})
	}
	m.do(Acknowledge{status})
}

// goesOn handles a state that is not terminal.
func (m *JobMaster) goesOn(s *subJob, one *slot, status api.Status) {
	live := one.Live
	s.tell(one, status.State)
	if status.State == api.TaskUnreachable {
		m.silent(s, one)
		return
	}
	live.Silent = time.Time{}
	if status.Hostname != "" {
		live.Hostname = status.Hostname
	}
	if len(status.Ports) > 0 {
		live.Ports = maps.Clone(status.Ports)
	}
	well := m.well(s, live, status)
	if live.Said = ""; !well {
		live.Said = status.Message
	}
	switch {
	case !well:
		live.Running = time.Time{}
	case live.Running.IsZero():
		live.Running = m.now
		m.watchProof(s, one)
		copying{m, s}.look()
	}
}

// well reports whether the status says that the task runs, and is healthy if it has checks.
func (m *JobMaster) well(s *subJob, live *attempt, status api.Status) bool {
	if status.Healthy != nil {
		return status.State == api.TaskRunning && *status.Healthy
	}
	return status.State == api.TaskRunning && len(m.task(s, live.Version).Checks) == 0
}

// patience returns how long a task on a silent agent is awaited.
func (s *subJob) patience() time.Duration { return time.Duration(s.Task.LostAfter) }

// silent notes that the agent of the slot's task is taken for dead.
func (m *JobMaster) silent(s *subJob, one *slot) {
	live := one.Live
	if !live.Silent.IsZero() {
		return
	}
	live.Silent, live.Running = m.now, time.Time{}
	switch wait := s.patience(); {
	case live.Killed != notKilled:
		m.missed(s, one)
	case wait == 0:
		m.missed(s, one)
	case wait > 0:
		m.Alarms.set(alarm{At: m.now.Add(wait), Kind: lostLong, SubJob: s.Name, Index: one.Index, Attempt: live.Number})
	}
}

// missed starts the slot's task elsewhere.
func (m *JobMaster) missed(s *subJob, one *slot) {
	live := s.detach(one)
	one.Lost = live
	if live.Killed == notKilled && !s.EachAgent {
		m.note("%s was on %s, which is silent; index %d of %s is started elsewhere", live.Task, live.Agent, one.Index, s.Name)
	}
	switch {
	case s.Together: // if it comes back, it is a stray
		one.Lost = nil
		s.drop(one)
	case !s.EachAgent || m.Phase != jobs.Running:
		m.goOn(s, one, 0)
	case m.Roll.Active && one.Version != m.Version: // the change goes on without it
		s.renew(one, m.Version)
	}
	m.savePart(s, one.Index)
}

// goOn lets a slot without a task wait for its next one, if that is wanted, after a pause.
func (m *JobMaster) goOn(s *subJob, one *slot, pause time.Duration) {
	if m.Phase != jobs.Running || s.Keep && one.Index >= s.Tasks || !s.Keep && s.Failed > s.Failures || s.Over {
		copying{m, s}.end(one)
		s.drop(one)
		return
	}
	if (copying{m, s}).promote(one) {
		return
	}
	if s.EachAgent && m.Roll.Active && one.Version != m.Version { // it takes no part in the change
		m.changeTo(s, one, m.Version)
		one.Trial = true
	}
	if pause <= 0 {
		m.await(s, one)
		return
	}
	s.pause(one, m.now.Add(pause))
	m.Alarms.set(alarm{At: one.Pause, Kind: pauseOver, SubJob: s.Name, Index: one.Index})
}

// cameBack handles a task whose agent was taken for dead. If another task was started in its place, one of the two is
// ended; both are if the job no longer wants one. If the older has ended well meanwhile, that counts.
func (m *JobMaster) cameBack(s *subJob, one *slot, status api.Status) {
	older := one.Lost
	switch {
	case status.State == api.TaskUnreachable:
	case status.State == api.TaskFinished && !s.Keep:
		one.Lost = nil
		if one.Live != nil {
			m.kill(one.Live, unwanted)
			s.detach(one)
		}
		m.settle(s, one, true)
	case status.State.Settled():
		one.Lost = nil
		if s.EachAgent && !one.busy() { // its agent may get another
			s.drop(one)
		}
		m.savePart(s, one.Index)
	case older.Killed == notKilled && m.olderStays(s, one, status):
		if live := one.Live; live != nil && one.Slow == hadItsCopy { // it is the copy of the older, and stays that
			s.attachCopy(one, s.detach(one))
		} else if live != nil {
			m.kill(live, unwanted)
			s.detach(one)
		}
		one.Lost = nil
		older.Silent = time.Time{}
		s.attach(one, older)
		m.watchTime(s, one)
		m.goesOn(s, one, status)
		m.note("%s is back on %s and goes on", older.Task, older.Agent)
		m.savePart(s, one.Index)
	default:
		if older.Killed == notKilled && one.busy() {
			m.note("%s is back on %s; it ends, for index %d of %s was started elsewhere", older.Task, older.Agent, one.Index, s.Name)
		}
		m.kill(older, unwanted)
	}
}

// olderStays reports whether the slot's older task, which has come back with this status, goes on in place of the one
// that was started elsewhere.
func (m *JobMaster) olderStays(s *subJob, one *slot, status api.Status) bool {
	older, live := one.Lost, one.Live
	if live == nil || live.Killed != notKilled {
		return live == nil && older.Version == one.Version
	}
	stays := work.Stays([]work.Rival{
		{Wanted: older.Version == one.Version, Running: status.State == api.TaskRunning, Ready: m.well(s, older, status), Number: older.Number},
		{Wanted: live.Version == one.Version, Running: live.State == api.TaskRunning, Ready: one.up(), Number: live.Number},
	}, s.Keep)
	return stays == 0
}

// over handles the end of a slot's task.
func (m *JobMaster) over(s *subJob, one *slot, status api.Status) {
	live := s.detach(one)
	task := m.task(s, live.Version)
	if status.State == api.TaskDropped { // it never began
		one.Tries--
	}
	end := one.End(live.Killed.verdict(), status, m.now.Sub(live.Since), work.Rules{Service: s.Keep, Attempts: task.Attempts, Backoff: backoffOf(task)})
	switch {
	case end.Verdict == work.Well && !(s.Together && m.Gang.Regroup):
		if s.Speculate > 0 && !live.Running.IsZero() {
			s.Pace.Note(m.now.Sub(live.Running))
		}
		m.settle(s, one, true)
		return
	case s.Together:
		m.memberOver(s, one, live, end.Verdict, words(live, status, task))
		return
	case live.Killed == unwanted || live.Killed == replaced:
	case end.Verdict == work.Lost && s.EachAgent: // the agent may have left
		s.drop(one)
		m.savePart(s, one.Index)
		return
	case end.Verdict == work.Lost:
		if blame := status.Reason.Blame(); one.Row == 1 && (blame == api.BlameTender || blame == api.BlameMachine) {
			m.note("%s: %s; that was not its fault, and it is tried again", live.Task, words(live, status, task))
		}
	default:
		one.Last = fmt.Sprintf("%s: %s", live.Task, words(live, status, task))
		m.note("%s", one.Last)
		if m.bad(s, one, live, status) {
			m.savePart(s, one.Index)
			return
		}
		if end.GivenUp {
			m.settle(s, one, false)
			return
		}
	}
	m.avoidIfBad(s, one, live)
	m.goOn(s, one, end.Pause)
	m.savePart(s, one.Index)
}

// backoffOf says how long an index waits before its next attempt.
func backoffOf(task jobs.Task) work.Backoff {
	return work.Backoff{First: time.Duration(task.Backoff), Max: time.Duration(task.BackoffMax)}
}

// words describes an end in words for people.
func words(live *attempt, status api.Status, task jobs.Task) string {
	if live.Killed == overdue {
		return fmt.Sprintf("it took longer than %v", task.Timeout)
	}
	return work.Words(status)
}

// settle ends an index, done or given up.
func (m *JobMaster) settle(s *subJob, one *slot, done bool) {
	copying{m, s}.end(one)
	s.drop(one)
	p := s.part(one.Index)
	if done {
		p.Done.set(one.Index % partSlots)
		s.Done++
	} else {
		p.Failed.set(one.Index % partSlots)
		s.Failed++
	}
	if s.fold(one.Index / partSlots) {
		m.saveHeader()
	}
	m.savePart(s, one.Index)
	copying{m, s}.look()
}
