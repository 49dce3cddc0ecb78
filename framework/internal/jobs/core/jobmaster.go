package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/value"
)

// JobMaster decides about one job. It takes what happens to the room whom it concerns, and it alone knows all rooms. Each
// owns the fields in its struct, and calls the rooms that it holds, which never call back.
type JobMaster struct {
	*base
	endings    *endings
	steps      *steps
	versions   *versions
	waiting    *waiting
	stragglers *stragglers
	rolling    *rolling
	runs       *runs
	gangs      *gangs
	launches   *launches
	attempts   *attempts
}

// build makes the rooms around what they share.
func build(b *base) *JobMaster {
	m := &JobMaster{base: b, endings: &endings{b}, versions: &versions{b}, waiting: &waiting{b}, stragglers: &stragglers{b}}
	m.steps = &steps{base: b, endings: m.endings}
	m.rolling = &rolling{base: b, versions: m.versions, waiting: m.waiting}
	m.runs = &runs{base: b, endings: m.endings, steps: m.steps, versions: m.versions}
	m.gangs = &gangs{base: b, endings: m.endings}
	m.launches = &launches{base: b, steps: m.steps, rolling: m.rolling, gangs: m.gangs}
	m.attempts = &attempts{base: b, endings: m.endings, waiting: m.waiting, stragglers: m.stragglers, rolling: m.rolling, gangs: m.gangs, launches: m.launches}
	return m
}

// New makes the JobMaster of a job that was just submitted.
func New(version jobs.Version, run string) *JobMaster {
	m := build(&base{Job: version.Job.WithDefaults(), Run: run, Version: version.Number, Phase: jobs.Running, Submitted: version.At,
		Versions: map[int]jobs.Version{version.Number: version}})
	m.rolling.Stable = version.Number
	if m.Job.Cron != nil {
		m.runs.Cron.From = version.At
		return m // each run will be a sub-job
	}
	for _, planned := range m.Job.Plan().SubJobs {
		m.Subs = append(m.Subs, newSubJob(planned))
	}
	if m.Job.Rolling() != nil {
		m.rolling.Roll.Active = true
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
		m.emitEffects(m.makeEvent("submitted", cutText(m.Versions[m.Version].Why)))
		m.beginJob()
	case Updated:
		if m.Phase == jobs.Running {
			m.rolling.updateVersion(e.Version)
			m.runs.resetSchedule()
		}
	case Assigned:
		m.launches.assignTask(e)
	case AssignedGang:
		m.launches.assignGang(e)
	case Undispatched:
		m.attempts.requeueUndispatched(e)
	case Heard:
		m.attempts.hearStatus(e.Status)
	case Asked:
		m.endings.endAsked(e)
	case RunAsked:
		if begun, err := m.MayRun(e.Number); err == nil && !begun {
			m.runs.beginRun(m.now, e.Why)
		}
	case Planned:
		m.runs.planNext(e)
	case ClockSet:
		m.clockSet(e)
	case Woken:
	}
	m.rolling.continueRoll()
	m.concludeJob()
	effects := m.effects
	m.now, m.doubt, m.effects = time.Time{}, time.Time{}, nil
	return effects
}

// beginJob generates the tasks of a new job.
func (m *JobMaster) beginJob() {
	m.versions.pruneVersions(m.rolling.Stable, m.rolling.Roll.From)
	m.steps.findEnds()
	for _, sub := range m.Subs {
		m.rolling.resizeSubJob(sub)
	}
	m.rolling.watchProgress()
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

// ringAlarms handles the alarms that are due.
func (m *JobMaster) ringAlarms() {
	for due, is := m.Alarms.Due(m.now); is; due, is = m.Alarms.Due(m.now) {
		sub := m.subJobNamed(due.SubJob)
		switch due.Kind {
		case progressDue, runDue, deadlineAt:
			m.ringJob(due)
		case gangPause:
			if sub != nil {
				m.gangs.ringGang(sub)
			}
		case straggles:
			if sub != nil {
				m.stragglers.copyStragglers(sub)
			}
		default:
			if sub != nil && sub.slotOf(due.Index) != nil {
				m.ringSlot(sub, sub.slotOf(due.Index), due)
			}
		}
	}
}

// ringJob handles an alarm of the job, or of one of its runs.
func (m *JobMaster) ringJob(due alarm) {
	switch {
	case m.Phase != jobs.Running:
	case due.Kind == progressDue:
		m.rolling.ringProgress()
	case due.Kind == runDue:
		m.runs.ringRun(due.At)
	case due.SubJob != "":
		m.runs.endRun(due.SubJob, "overdue")
	default:
		m.endings.failJob(fmt.Sprintf("it was not done within %v", deadlineOf(m.Job)))
	}
}

// ringSlot handles an alarm of a slot.
func (m *JobMaster) ringSlot(sub *subJob, s *slot, due alarm) {
	switch live := s.live(); due.Kind {
	case pauseOver, unclaimed, avoidOver:
		m.waiting.endWait(sub, s, due)
	case timeOver:
		m.attempts.endOverdue(s, due.Attempt)
	case proofOver:
		if live != nil && live.Number == due.Attempt {
			m.rolling.ringProof(s)
		}
	case lostLong:
		if live != nil && live.Number == due.Attempt && !live.Silent.IsZero() && !live.Silent.Add(sub.lostAfter()).After(m.now) {
			m.attempts.giveUpSilent(sub, s, live)
		}
	default: // alarms of more than a slot
	}
}

// concludeJob lets sub-jobs begin and end as far as others have, and ends the job when it has nothing left to do.
func (m *JobMaster) concludeJob() {
	if m.Phase.Ended() || m.Gone {
		return
	}
	slots := 0
	for _, sub := range m.Subs {
		if m.Phase == jobs.Running && m.Job.Cron == nil && !sub.Keep && sub.Failed > sub.Failures && len(sub.After)+len(m.Subs) == 1 {
			m.endings.failJob(fmt.Sprintf("%d of %d indexes of %s were given up, %d may be", sub.Failed, sub.Tasks, sub.Name, sub.Failures))
		}
		slots += sub.Slots
	}
	switch {
	case m.Phase == jobs.Running && m.Job.Cron != nil:
		m.runs.concludeRuns()
	case m.Phase == jobs.Running:
		if m.Job.Gang != nil {
			m.gangs.regroupGang(m.Subs[0])
		}
		if ended, why := m.steps.concludeSteps(); ended != "" {
			m.Why = cmp.Or(why, m.Why)
			m.endJob(ended)
		}
	case slots > 0:
	case m.Phase == jobs.Stopping:
		m.endJob(jobs.Stopped)
	case m.Phase == jobs.Failing:
		m.endJob(jobs.Failed)
	case m.Phase == jobs.Deleting:
		m.endings.forgetJob()
	}
}

// endJob keeps of the job what its history needs.
func (m *JobMaster) endJob(phase jobs.Phase) {
	for _, run := range slices.Clone(m.runs.Cron.Runs) {
		m.runs.closeRun(run, strings.ToLower(string(phase)))
	}
	m.Phase, m.EndedAt, m.Alarms = phase, m.now, alarmClock{}
	m.tellEvent(strings.ToLower(string(phase)), "%s", strings.ToLower(string(phase)))
	for _, sub := range m.Subs {
		m.endings.dropParts(sub)
	}
	m.emitEffects(Ended{phase})
}

// JobOf returns the name of the job to which a task belongs.
func JobOf(id api.TaskID) string {
	name, _, _ := strings.Cut(string(id), ".")
	return name
}
