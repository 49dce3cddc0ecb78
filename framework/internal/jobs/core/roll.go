package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// roll is the change of a service from one version to another.
type roll struct {
	Active  bool
	From    int    // the version to which a bad change goes back; 0: the job begins, and there is none
	Back    bool   // it is going back
	Stopped bool   // it is given up, as a changed task was bad, or none has proven itself for too long
	Why     string // why it goes back or has stopped
	// Progress is when a task proved itself last; before, when the change began, or a manager took over.
	Progress time.Time `json:"-"`
}

// first says whether it is the beginning of a job, in which nothing is changed.
func (r roll) first() bool { return r.Active && r.From == 0 }

// updateVersion gives the job another version.
func (m *JobMaster) updateVersion(version jobs.Version) {
	if m.Phase != jobs.Running {
		return
	}
	if _, known := m.Versions[version.Number]; known {
		m.tellEvent("updated", "back to version %d: %s", version.Number, version.Why)
	} else {
		m.Versions[version.Number] = version
		m.tellEvent("updated", "version %d: %s", version.Number, version.Why)
	}
	m.beginRoll(roll{From: m.Stable})
	m.becomeVersion(version.Number)
	m.pruneVersions()
	m.saveHeader()
}

// becomeVersion makes the job what one of its versions says. The tasks that run are left for rollOn to change.
func (m *JobMaster) becomeVersion(number int) {
	m.Version, m.Job = number, m.Versions[number].Job.WithDefaults()
	if m.Job.Cron != nil { // runs that go on keep their version
		m.Cron.From, m.Cron.Next = m.now, time.Time{}
		return
	}
	for i, planned := range m.Job.Plan().SubJobs {
		s := m.Subs[i]
		s.SubJob = planned
		for _, one := range s.allSlots() {
			if s.EachAgent && !one.busy() { // its agent gets a new slot once no older one is there
				s.renewSlot(one, number)
				m.savePart(s, one.Index)
				continue
			}
			// A task holds what it has in the role of its version. It keeps its owner while it goes on unchanged.
			same := m.taskOf(s, one.Version).Same(planned.Task) && m.Versions[one.Version].Job.Role == m.Job.Role
			if same || !s.Keep && !one.busy() {
				m.changeTo(s, one, number)
				if one.Trial = one.Trial && same; one.Trial && one.up() {
					m.watchProof(s, one, one.live())
				}
			}
			if !same {
				unproven := one.Trial || m.Roll.Back
				if one.Trial = false; unproven && !one.up() { // it is down, and what it was changed to must not run
					m.changeSlot(s, one)
				}
			}
		}
		m.resizeSubJob(s)
	}
}

// changeTo sets the version of the slot's next task.
func (m *JobMaster) changeTo(s *subJob, one *slot, number int) {
	s.Survey.Touch(one.Index)
	if one.Version == number {
		return
	}
	queued := one.Queued
	s.unqueueSlot(one)
	one.Version = number
	s.avoidAgent(one, "") // another version may do well where this one did not
	if queued {
		s.queueSlot(one)
	}
	m.savePart(s, one.Index)
}

// pruneVersions forgets the oldest versions that are no longer needed.
func (m *JobMaster) pruneVersions() {
	if len(m.Versions) <= VersionsMax {
		return
	}
	needed := map[int]bool{m.Version: true, m.Stable: true, m.Roll.From: true}
	for _, r := range m.Cron.Runs {
		needed[r.Version] = true
	}
	for _, s := range m.Subs {
		for _, one := range s.allSlots() {
			needed[one.Version] = true
			for _, a := range one.tasks() {
				needed[a.Version] = true
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(m.Versions)) {
		if len(m.Versions) <= VersionsMax {
			return
		}
		if !needed[number] {
			delete(m.Versions, number)
			m.emit(Save{VersionKey(number)})
		}
	}
}

// rollOn continues a change: tasks that have proven themselves are done, and the next ones are changed.
func (m *JobMaster) rollOn() {
	if !m.Roll.Active && !m.Roll.Stopped || m.Phase != jobs.Running {
		return
	}
	how := m.Job.Rolling()
	if how == nil { // tasks of a batch that have begun end as they began
		m.endRoll()
		return
	}
	s := m.Subs[0]
	m.lookAtSlots(s)
	if !m.Roll.Active {
		return
	}
	if m.Roll.first() {
		if m.allProven(s, time.Duration(how.Proof)) {
			m.endRoll()
		}
		m.giveUpIfStuck(s)
		return
	}
	changed := s.Survey.Count(work.Changed)
	atOnce, proof := how.AtOnce, time.Duration(how.Proof)
	if changed < min(how.Canary, s.Tasks) && !m.Roll.Back {
		atOnce, proof = how.Canary-changed, time.Duration(how.CanaryProof)
	}
	for _, index := range s.Survey.Tried() {
		if one := s.slotOf(index); m.hasProven(one, proof) {
			one.Trial = false
			m.Roll.Progress = m.now
			s.Survey.Touch(index)
			m.savePart(s, index)
		}
	}
	m.lookAtSlots(s)
	if how.Canary > 0 && s.Survey.Count(work.Changed) == how.Canary && !m.Roll.Back {
		atOnce = how.AtOnce
	}
	for index, is := s.Survey.Next(atOnce, false); is; index, is = s.Survey.Next(atOnce, false) {
		m.changeSlot(s, s.slotOf(index))
		m.lookAtSlots(s)
	}
	if s.Survey.Count(work.Old)+s.Survey.Count(work.Tried) == 0 {
		m.endRoll()
	}
	m.giveUpIfStuck(s)
	m.lookAtSlots(s)
}

// lookAtSlots has the survey look at the slots that were touched.
func (m *JobMaster) lookAtSlots(s *subJob) {
	s.Survey.Look(func(index int) (work.Stand, bool) {
		one := s.slotOf(index)
		switch {
		case one == nil || index >= s.Tasks || s.EachAgent && !one.busy() && !one.Trial:
			return work.Absent, false
		case one.Version != m.Version:
			return work.Old, one.up()
		case one.Trial:
			return work.Tried, one.up()
		}
		return work.Changed, one.up()
	})
}

// beginRoll begins a change, and watches that it makes progress.
func (m *JobMaster) beginRoll(r roll) {
	m.Roll = r
	m.Roll.Active = true
	m.watchProgress()
}

// watchProgress sets the alarm at which the change is given up, if no task proves itself until then.
func (m *JobMaster) watchProgress() {
	how := m.Job.Rolling()
	if how == nil || !m.Roll.Active && !m.Roll.Stopped {
		return
	}
	m.Roll.Progress = m.now
	m.Alarms.set(alarm{At: m.now.Add(time.Duration(how.ProgressDeadline)), Kind: progressDue})
	if !m.Roll.first() {
		m.Subs[0].Survey.Begin(m.Subs[0].Next)
	}
}

// allProven says whether all tasks of a job that has just begun have run well for so long.
func (m *JobMaster) allProven(s *subJob, proof time.Duration) bool {
	wanted := s.Tasks
	if s.EachAgent {
		wanted = max(1, s.Slots)
	}
	if s.Running < wanted { // the usual case, in which the slots need not be looked at
		return false
	}
	for _, p := range s.Parts { // order: irrelevant because all must hold
		for _, one := range p.Slots { // order: irrelevant because all must hold
			if (s.EachAgent || one.Index < s.Tasks) && !m.hasProven(one, proof) {
				return false
			}
		}
	}
	return true
}

// hasProven says whether the slot's task has run well for so long.
func (m *JobMaster) hasProven(one *slot, proof time.Duration) bool {
	return one.up() && m.now.Sub(one.live().Up) >= proof
}

// giveUpIfStuck ends a change in which no task has proven itself for too long: it goes back, or stops where it is. A
// change that has nothing to go back to is only called stopped: its tasks are still tried.
func (m *JobMaster) giveUpIfStuck(s *subJob) {
	how := m.Job.Rolling()
	if how == nil || !m.Roll.Active || m.now.Sub(m.Roll.Progress) < time.Duration(how.ProgressDeadline) {
		return
	}
	why := fmt.Sprintf("no task of version %d has proven itself within %v (progress_deadline)", m.Version, how.ProgressDeadline)
	if trouble := cmp.Or(s.trouble(), s.shortage()); trouble != "" {
		why += ": " + trouble
	}
	switch {
	case !m.Roll.first() && !m.Roll.Back:
		m.goBack(why)
	case !m.Roll.Stopped:
		m.Roll.Stopped = true
		m.tellEvent("not proven", "%s", why)
		m.judgeVersion(m.Version, why)
		if m.Roll.Why != "" { // why it goes back
			why = m.Roll.Why + "; and " + why
		}
		m.Roll.Why = why
	}
}

// changeSlot replaces the slot's task.
func (m *JobMaster) changeSlot(s *subJob, one *slot) {
	if !s.Keep {
		return
	}
	m.changeTo(s, one, m.Version)
	one.Trial, one.Row = true, 0
	switch {
	case one.busy():
		m.killAttempt(one.live(), work.Unwanted)
	case !one.Queued:
		s.endPause(one)
		m.awaitAgent(s, one)
	}
	m.savePart(s, one.Index)
}

// endRoll ends a change: all tasks run the version.
func (m *JobMaster) endRoll() {
	if m.Roll.first() {
		m.Roll = roll{}
	}
	m.Roll.Active, m.Roll.Stopped = false, false
	for _, s := range m.Subs {
		s.Survey = work.Survey{}
	}
	m.Stable = m.Version
	if m.Job.Rolling() != nil {
		m.tellEvent("proven", "all run version %d", m.Version)
		m.judgeVersion(m.Version, "")
	}
	m.pruneVersions()
	m.saveHeader()
}

// watchProof sets the alarms at which a changed task may have proven itself.
func (m *JobMaster) watchProof(s *subJob, one *slot, a *attempt) {
	how := m.Job.Rolling()
	if how == nil || !one.Trial && !m.Roll.first() {
		return
	}
	for _, proof := range []jobs.Duration{how.Proof, how.CanaryProof} {
		m.Alarms.set(alarm{At: m.now.Add(time.Duration(proof)), Kind: proofOver, SubJob: s.Name, Index: one.Index, Attempt: a.Number})
	}
}

// handleBad handles the end of a changed task that had not proven itself: the service goes back to what it was. It returns
// false if the task is not such a task, or if the service does not go back.
func (m *JobMaster) handleBad(s *subJob, one *slot, live *attempt, status api.Status) bool {
	if !m.Roll.Active || m.Roll.Back || !s.Keep || !one.Trial || live.Version != m.Version || m.Phase != jobs.Running {
		return false
	}
	if !m.goBack(string(live.Task) + ": " + wordsOf(live, status, s.Task)) {
		return false
	}
	if s.slotOf(one.Index) == nil || one.busy() { // the older version has no such index, or it has a task
		return true
	}
	m.changeTo(s, one, m.Version)
	one.Trial = true
	m.awaitAgent(s, one)
	return true
}

// judgeVersion marks a version as proven or, if why is not "", as bad.
func (m *JobMaster) judgeVersion(number int, why string) {
	version := m.Versions[number]
	if proven := why == ""; version.Proven != proven || version.Bad != why {
		version.Proven, version.Bad = proven, why
		m.Versions[number] = version
		m.emit(Save{VersionKey(number)})
	}
}

// goBack makes a service again what it was before a change that has gone wrong. It returns false if the change stops
// instead, because that is wanted, or because there is nothing to go back to.
func (m *JobMaster) goBack(why string) bool {
	m.judgeVersion(m.Version, why)
	if m.Job.Rolling().KeepBad || m.Roll.From == m.Version {
		m.Roll.Active, m.Roll.Stopped, m.Roll.Why = false, true, why
		m.tellEvent("change stopped", "the change to version %d has stopped: %s", m.Version, why)
		return false
	}
	m.tellEvent("going back", "version %d is bad, the service goes back to version %d: %s", m.Version, m.Roll.From, why)
	m.beginRoll(roll{From: m.Roll.From, Back: true, Why: why})
	m.becomeVersion(m.Roll.From)
	return true
}
