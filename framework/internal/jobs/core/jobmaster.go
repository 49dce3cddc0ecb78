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
	"github.com/tenderhq/tender/internal/value"
	"github.com/tenderhq/tender/internal/work"
)

// Bounds of what is kept of a job.
const (
	// VersionsMax bounds the versions; beyond it the oldest version that is not needed is forgotten.
	VersionsMax = 10
	// NotesMax bounds the notes; beyond it the oldest is forgotten.
	NotesMax = 20
	// NoteBytesMax bounds a note; a longer one is cut off.
	NoteBytesMax = 300
)

// JobMaster decides about one job.
type JobMaster struct {
	Job       jobs.Job // the job as it should be, with its defaults
	Run       string   // distinguishes this run of the job from earlier runs of the same name
	Version   int      // of Job
	Stable    int      // the version that was proven last, to which a bad change goes back
	Versions  map[int]jobs.Version
	Phase     jobs.Phase
	Why       string
	Submitted time.Time
	EndedAt   time.Time
	Subs      []*subJob
	Notes     []jobs.Note
	Roll      roll
	Cron      cron
	Gang      gang
	Alarms    alarmClock
	Gone      bool // the job is deleted, and none of its records is kept

	now     time.Time
	doubt   time.Time // during a step: until when the wall clock is not trusted
	effects []Effect
}

// New makes the JobMaster of a job that was just submitted.
func New(version jobs.Version, run string) *JobMaster {
	m := &JobMaster{
		Job: version.Job.WithDefaults(), Run: run, Version: version.Number, Stable: version.Number, Phase: jobs.Running, Submitted: version.At,
		Versions: map[int]jobs.Version{version.Number: version},
	}
	if m.Job.Cron != nil {
		m.Cron.From = version.At
		return m // each run will be a sub-job
	}
	for _, planned := range m.Job.Plan().SubJobs {
		m.Subs = append(m.Subs, newSubJob(planned))
	}
	if m.Job.Rolling() != nil {
		m.Roll.Active = true
	}
	return m
}

// Inherit gives a job that is begun anew the versions of its earlier runs.
func (m *JobMaster) Inherit(versions map[int]jobs.Version) {
	for number, version := range versions { // order: irrelevant because each has a place of its own
		if _, known := m.Versions[number]; !known {
			m.Versions[number] = version
		}
	}
}

// Clone returns a JobMaster that behaves alike and shares nothing that changes.
func (m *JobMaster) Clone() *JobMaster { return value.Clone(m) }

// Dump describes the whole state for people. Two JobMasters with the same description behave alike.
func (m *JobMaster) Dump() string { return value.Text(m) }

// Wake returns when the JobMaster next has to be told Woken; zero: nothing happens by time alone.
func (m *JobMaster) Wake() time.Time { return m.Alarms.Next() }

// Step handles an event, and returns what has to be done.
func (m *JobMaster) Step(now time.Time, happened Event) []Effect {
	m.now, m.effects = now, nil
	if _, is := happened.(ClockSet); !is { // an alarm may stand for a time that was wrong
		m.ringAlarms()
	}
	switch e := happened.(type) {
	case Begun:
		m.emit(m.makeEvent("submitted", cutText(m.Versions[m.Version].Why)))
		m.beginJob()
	case Updated:
		m.updateVersion(e.Version)
	case Assigned:
		m.assignTask(e)
	case AssignedGang:
		m.assignGang(e)
	case Undispatched:
		m.takeBackAssigned(e)
	case Heard:
		m.hearStatus(e.Status)
	case Asked:
		m.endAsked(e)
	case RunAsked:
		if begun, err := m.MayRun(e.Number); err == nil && !begun {
			m.beginRun(m.now, e.Why)
		}
	case Planned:
		m.plan(e)
	case ClockSet:
		m.clockSet(e)
	case Woken:
	}
	m.rollOn()
	m.conclude()
	effects := m.effects
	m.now, m.doubt, m.effects = time.Time{}, time.Time{}, nil
	return effects
}

func (m *JobMaster) emit(effects ...Effect) {
	for _, effect := range effects {
		if _, is := effect.(Save); !is || !slices.Contains(m.effects, effect) { // one is enough for the whole step
			m.effects = append(m.effects, effect)
		}
	}
}

func (m *JobMaster) saveHeader() { m.emit(Save{HeaderKey}) }

func (m *JobMaster) savePart(s *subJob, index int) { m.emit(Save{partKey(s.Name, index/partSlots)}) }

// addNote adds a note for people.
func (m *JobMaster) addNote(format string, values ...any) {
	m.Notes = append(m.Notes, jobs.Note{At: m.now, Text: cutText(fmt.Sprintf(format, values...))})
	m.Notes = m.Notes[max(0, len(m.Notes)-NotesMax):]
	m.saveHeader()
}

// cutText cuts a note off where it becomes too long.
func cutText(text string) string {
	if len(text) > NoteBytesMax {
		text = strings.ToValidUTF8(text[:NoteBytesMax], "") + "…"
	}
	return text
}

// tellEvent adds a note for people, which the masters' history keeps too.
func (m *JobMaster) tellEvent(what, format string, values ...any) {
	m.addNote(format, values...)
	m.emit(m.makeEvent(what, m.Notes[len(m.Notes)-1].Text))
}

// makeEvent makes an event of the job.
func (m *JobMaster) makeEvent(what, why string) Tell {
	return Tell{api.JobEvent{Job: m.Job.Name, What: what, Why: why, Role: m.Job.Role, Owner: m.Versions[m.Version].Owner}}
}

// beginJob generates the tasks of a new job.
func (m *JobMaster) beginJob() {
	m.pruneVersions()
	m.endsOfSubJobs()
	for _, s := range m.Subs {
		m.resizeSubJob(s)
	}
	m.watchProgress()
	m.watchDeadlines()
}

// deadlineOf returns how long a job may take; 0: no limit.
func deadlineOf(job jobs.Job) time.Duration {
	switch {
	case job.Batch != nil:
		return time.Duration(job.Batch.Deadline)
	case job.Gang != nil:
		return time.Duration(job.Gang.Deadline)
	}
	return 0
}

// resizeSubJob gives a sub-job that is kept running as many indexes as it should have, and ends those beyond that.
func (m *JobMaster) resizeSubJob(s *subJob) {
	if !s.Keep || s.EachAgent {
		return
	}
	for index := range s.Tasks {
		if s.slotOf(index) == nil {
			s.queueSlot(s.beginSlot(index, m.Version))
		}
	}
	for _, one := range s.allSlots() {
		if one.Index < s.Tasks {
			continue
		}
		if one.busy() {
			m.killAttempt(one.live(), work.Unwanted)
		} else {
			s.dropSlot(one)
			m.savePart(s, one.Index)
		}
	}
}

func (m *JobMaster) killAttempt(a *attempt, why work.Kill) {
	if a.Ends(why) {
		m.emit(Kill{a.Task})
	}
}

// ringAlarms handles the alarms that are due.
func (m *JobMaster) ringAlarms() {
	for one, is := m.Alarms.Due(m.now); is; one, is = m.Alarms.Due(m.now) {
		if one.Kind == deadlineAt || one.Kind == runDue || one.Kind == progressDue {
			m.ringJob(one)
			continue
		}
		s := m.subJobNamed(one.SubJob)
		if s != nil && one.Kind == gangPause {
			s.Held = m.Gang.Pause.After(m.now)
			continue
		}
		if s != nil && one.Kind == straggles {
			copying{m, s}.copyStragglers()
			continue
		}
		if s == nil || s.slotOf(one.Index) == nil {
			continue
		}
		m.ringSlot(s, s.slotOf(one.Index), one)
	}
}

func (m *JobMaster) ringJob(one alarm) {
	switch {
	case m.Phase != jobs.Running:
	case one.Kind == progressDue: // rollOn looks at it; where there was progress meanwhile, it is due later
		if how := m.Job.Rolling(); m.Roll.Active && how != nil {
			if at := m.Roll.Progress.Add(time.Duration(how.ProgressDeadline)); at.After(m.now) {
				m.Alarms.set(alarm{At: at, Kind: progressDue})
			}
		}
	case one.Kind == deadlineAt && one.SubJob != "":
		m.endRun(one.SubJob, "overdue")
	case one.Kind == deadlineAt:
		m.failJob(fmt.Sprintf("it was not done within %v", deadlineOf(m.Job)))
	case !one.At.Equal(m.Cron.Next):
	case m.now.Sub(one.At) <= jobs.OnTime:
		m.due(one.At)
	default:
		m.Cron.Next = time.Time{} // this run was missed, and maybe later ones too: the manager has to tell
	}
}

func (m *JobMaster) ringSlot(s *subJob, at *slot, one alarm) {
	live := at.live()
	switch {
	case one.Kind == pauseOver:
		if !at.Pause.IsZero() && !at.Pause.After(m.now) {
			s.endPause(at)
			m.awaitAgent(s, at)
		}
	case one.Kind == unclaimed:
		if at.Queued && s.EachAgent {
			s.dropSlot(at)
			m.savePart(s, at.Index)
		}
	case one.Kind == avoidOver:
		if at.Queued && at.Tries == one.Attempt {
			s.avoidAgent(at, "")
		}
	case one.Kind == timeOver:
		for _, a := range at.Attempts {
			if a.Number == one.Attempt && !a.Missed {
				m.killAttempt(a, work.Overdue)
			}
		}
	case live == nil || live.Number != one.Attempt:
	case one.Kind == proofOver:
		if how := m.Job.Rolling(); m.Roll.first() && how != nil && m.hasProven(at, time.Duration(how.Proof)) {
			m.Roll.Progress = m.now
		}
	case one.Kind == lostLong && !live.Silent.IsZero() && !live.Silent.Add(s.lostAfter()).After(m.now):
		m.giveUpSilent(s, at, live)
	}
}

func (m *JobMaster) subJobNamed(name string) *subJob {
	for _, s := range m.Subs {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// taskOf returns what the sub-job's tasks run in this version.
func (m *JobMaster) taskOf(s *subJob, version int) jobs.Task {
	if version == m.Version {
		return s.Task
	}
	if old, is := m.Versions[version]; is {
		for _, planned := range old.Job.Plan().SubJobs {
			if planned.Name == s.Name {
				return planned.Task
			}
		}
	}
	return s.Task
}

// endAsked ends the job because somebody asked for that.
func (m *JobMaster) endAsked(e Asked) {
	switch {
	case e.Delete:
		if m.Phase == jobs.Deleting {
			return
		}
		m.Phase, m.Why = jobs.Deleting, e.Why
	case m.Phase != jobs.Running:
		return
	default:
		m.Phase, m.Why = jobs.Stopping, e.Why
	}
	m.tellEvent(strings.ToLower(string(m.Phase)), "%s", strings.ToLower(string(m.Phase))+": "+e.Why)
	m.endTasks()
}

// failJob ends the job because it can no longer succeed.
func (m *JobMaster) failJob(why string) {
	m.Phase, m.Why = jobs.Failing, why
	m.tellEvent("failing", "it fails: %s", why)
	m.endTasks()
}

// endTasks ends the tasks that run, and drops those that wait.
func (m *JobMaster) endTasks() {
	for _, s := range m.Subs {
		m.endTasksOf(s)
	}
}

func (m *JobMaster) endTasksOf(s *subJob) {
	for _, one := range s.allSlots() {
		live := one.live()
		for _, second := range one.tasks() {
			if second != live && !second.Missed {
				m.killAttempt(second, work.Unwanted)
				s.detachTask(one, second)
			}
		}
		if live != nil {
			m.killAttempt(live, work.Unwanted)
		}
		if live == nil || !live.Silent.IsZero() { // if such a task comes back later, it is killed as a stray
			m.endAll(s, one)
			s.dropSlot(one)
			m.savePart(s, one.Index)
		}
	}
}

// conclude lets sub-jobs begin and end as far as others have, and ends the job when it has nothing left to do.
func (m *JobMaster) conclude() {
	if m.Phase.Ended() || m.Gone {
		return
	}
	slots := 0
	for _, s := range m.Subs {
		if m.Phase == jobs.Running && m.Job.Cron == nil && !s.Keep && s.Failed > s.Failures && len(s.After)+len(m.Subs) == 1 {
			m.failJob(fmt.Sprintf("%d of %d indexes of %s were given up, %d may be", s.Failed, s.Tasks, s.Name, s.Failures))
		}
		slots += s.Slots
	}
	switch {
	case m.Phase == jobs.Running && m.Job.Cron != nil:
		m.concludeRuns()
	case m.Phase == jobs.Running:
		if m.Job.Gang != nil {
			m.regroupGang(m.Subs[0])
		}
		m.concludeSteps()
	case slots > 0:
	case m.Phase == jobs.Stopping:
		m.endJob(jobs.Stopped)
	case m.Phase == jobs.Failing:
		m.endJob(jobs.Failed)
	case m.Phase == jobs.Deleting:
		m.forgetJob()
	}
}

// concludeSteps lets each sub-job begin when those before it have ended as it needs. The job ends with the last
// sub-job, and has failed if one of them has.
func (m *JobMaster) concludeSteps() {
	if only := m.Subs[0]; len(m.Subs) == 1 && only.Failed <= only.Failures && only.ownEnd() == goesOn { // the usual case
		return
	}
	ends, open, bad := m.endsOfSubJobs(), false, ""
	for _, s := range m.Subs {
		one := ends[s.Name]
		if one == goesOn && s.Failed > s.Failures {
			m.endTasksOf(s)
			if one = s.ownEnd(); one == endedBadly {
				m.conclude() // for the sub-jobs that come after this one
				return
			}
		}
		open = open || one == goesOn
		if one == endedBadly && bad == "" {
			bad = fmt.Sprintf("%s has failed: %d of %d indexes were given up, %d may be", s.Name, s.Failed, s.Tasks, s.Failures)
		}
	}
	switch {
	case open:
	case bad != "":
		m.Why = bad
		m.endJob(jobs.Failed)
	default:
		m.endJob(jobs.Succeeded)
	}
}

// endsOfSubJobs returns how far each sub-job is, and which may begin. In the list sub-jobs stand behind those that they come
// after.
func (m *JobMaster) endsOfSubJobs() map[string]end {
	ends := make(map[string]end, len(m.Subs))
	for _, s := range m.Subs {
		var pending, failed, missing bool
		for _, name := range s.After {
			pending = pending || ends[name] == goesOn
			failed = failed || ends[name] == endedBadly
			missing = missing || ends[name] == skipped
		}
		begins := s.When == jobs.OnSuccess && !failed && !missing || s.When == jobs.OnFailure && failed || s.When == jobs.Always || len(s.After) == 0
		s.Blocked = pending || !begins
		ends[s.Name] = s.ownEnd()
		if s.Blocked && !pending && ends[s.Name] == goesOn {
			ends[s.Name] = skipped
		}
	}
	return ends
}

// endJob keeps of the job what its history needs.
func (m *JobMaster) endJob(phase jobs.Phase) {
	for _, r := range slices.Clone(m.Cron.Runs) {
		m.runEnded(r, strings.ToLower(string(phase)))
	}
	m.Phase, m.EndedAt, m.Alarms = phase, m.now, alarmClock{}
	m.tellEvent(strings.ToLower(string(phase)), "%s", strings.ToLower(string(phase)))
	m.dropParts()
	m.emit(Ended{phase})
}

// dropParts deletes the records of the tasks.
func (m *JobMaster) dropParts() {
	for _, s := range m.Subs {
		m.emit(s.dropParts()...)
	}
}

// forgetJob deletes all records of the job.
func (m *JobMaster) forgetJob() {
	m.dropParts()
	numbers := slices.Sorted(maps.Keys(m.Versions))
	m.Versions, m.Alarms, m.Gone = nil, alarmClock{}, true
	for _, number := range numbers {
		m.emit(Save{VersionKey(number)})
	}
	m.emit(Save{HeaderKey}, Forgotten{})
}

// parseTask returns the sub-job, index and attempt that a task's ID names: NAME.RUN.SUBJOB.INDEX.ATTEMPT.
func (m *JobMaster) parseTask(id api.TaskID) (s *subJob, index, attempt int, ok bool) {
	parts := strings.Split(string(id), ".")
	if len(parts) != 5 || parts[0] != m.Job.Name || parts[1] != m.Run {
		return nil, 0, 0, false
	}
	index, err := strconv.Atoi(parts[3])
	attempt, err2 := strconv.Atoi(parts[4])
	s = m.subJobNamed(parts[2])
	return s, index, attempt, s != nil && err == nil && err2 == nil
}

func (m *JobMaster) taskID(s *subJob, index, attempt int) api.TaskID {
	return api.TaskID(m.Job.Name + "." + m.Run + "." + s.Name + "." + strconv.Itoa(index) + "." + strconv.Itoa(attempt))
}

// JobOf returns the name of the job to which a task belongs.
func JobOf(id api.TaskID) string {
	name, _, _ := strings.Cut(string(id), ".")
	return name
}
