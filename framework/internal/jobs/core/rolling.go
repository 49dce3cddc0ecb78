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

// rolling brings all tasks to the job's version, a few at a time, and back if they do not prove themselves.
type rolling struct {
	*base
	versions *versions
	waiting  *waiting

	Stable int // the version that was proven last, to which a bad change goes back
	Roll   roll
}

// resizeSubJob gives a sub-job that is kept running as many indexes as it should have, and ends those beyond that.
func (r *rolling) resizeSubJob(sub *subJob) {
	if !sub.Keep || sub.EachAgent {
		return
	}
	for index := range sub.Tasks {
		if sub.slotOf(index) == nil {
			sub.queueSlot(sub.beginSlot(index, r.Version))
		}
	}
	for _, s := range sub.allSlots() {
		if s.Index < sub.Tasks {
			continue
		}
		if s.busy() {
			r.killAttempt(s.live(), work.Unwanted)
		} else {
			sub.dropSlot(s)
			r.savePart(sub, s.Index)
		}
	}
}

// resumeRoll takes back a change that was stored only in part, so that a part is newer than the header.
func (r *rolling) resumeRoll() {
	if r.Job.Rolling() == nil || (r.Roll.Active || r.Roll.Stopped) && !r.Roll.first() {
		return
	}
	for _, s := range r.Subs[0].allSlots() {
		if s.Version != r.Version {
			r.beginRoll(roll{From: r.Stable})
			return
		}
		s.Trial = false
	}
}

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
func (r *rolling) updateVersion(version jobs.Version) {
	if _, known := r.Versions[version.Number]; known {
		r.tellEvent("updated", "back to version %d: %s", version.Number, version.Why)
	} else {
		r.Versions[version.Number] = version
		r.tellEvent("updated", "version %d: %s", version.Number, version.Why)
	}
	r.beginRoll(roll{From: r.Stable})
	r.adoptVersion(version.Number)
	r.versions.pruneVersions(r.Stable, r.Roll.From)
	r.saveHeader()
}

// adoptVersion makes the job what one of its versions says. The tasks that run are left for continueRoll to change.
func (r *rolling) adoptVersion(number int) {
	r.Version, r.Job = number, r.Versions[number].Job.WithDefaults()
	if r.Job.Cron != nil { // runs that go on keep their version
		return
	}
	for i, planned := range r.Job.Plan().SubJobs {
		sub := r.Subs[i]
		sub.SubJob = planned
		for _, s := range sub.allSlots() {
			if sub.EachAgent && !s.busy() { // its agent gets a new slot once no older one is there
				sub.renewSlot(s, number)
				r.savePart(sub, s.Index)
				continue
			}
			// A task holds what it has in the role of its version. It keeps its owner while it goes on unchanged.
			same := r.taskOf(sub, s.Version).Same(planned.Task) && r.Versions[s.Version].Job.Role == r.Job.Role
			if same || !sub.Keep && !s.busy() {
				r.waiting.changeVersion(sub, s, number)
				if s.Trial = s.Trial && same; s.Trial && s.up() {
					r.watchProof(sub, s, s.live())
				}
			}
			if !same {
				unproven := s.Trial || r.Roll.Back
				if s.Trial = false; unproven && !s.up() { // it is down, and what it was changed to must not run
					r.changeSlot(sub, s)
				}
			}
		}
		r.resizeSubJob(sub)
	}
}

// continueRoll continues a change: tasks that have proven themselves are done, and the next ones are changed.
func (r *rolling) continueRoll() {
	if !r.Roll.Active && !r.Roll.Stopped || r.Phase != jobs.Running {
		return
	}
	how := r.Job.Rolling()
	if how == nil { // tasks of a batch that have begun end as they began
		r.endRoll()
		return
	}
	sub := r.Subs[0]
	r.surveySlots(sub)
	if !r.Roll.Active {
		return
	}
	if r.Roll.first() {
		if r.areAllProven(sub, time.Duration(how.Proof)) {
			r.endRoll()
		}
		r.giveUpStuck(sub)
		return
	}
	changed := sub.Survey.Count(work.Changed)
	atOnce, proof := how.AtOnce, time.Duration(how.Proof)
	if changed < min(how.Canary, sub.Tasks) && !r.Roll.Back {
		atOnce, proof = how.Canary-changed, time.Duration(how.CanaryProof)
	}
	for _, index := range sub.Survey.Tried() {
		if s := sub.slotOf(index); r.hasProven(s, proof) {
			s.Trial = false
			r.Roll.Progress = r.now
			sub.Survey.Touch(index)
			r.savePart(sub, index)
		}
	}
	r.surveySlots(sub)
	if how.Canary > 0 && sub.Survey.Count(work.Changed) == how.Canary && !r.Roll.Back {
		atOnce = how.AtOnce
	}
	for index, is := sub.Survey.Next(atOnce, false); is; index, is = sub.Survey.Next(atOnce, false) {
		r.changeSlot(sub, sub.slotOf(index))
		r.surveySlots(sub)
	}
	if sub.Survey.Count(work.Old)+sub.Survey.Count(work.Tried) == 0 {
		r.endRoll()
	}
	r.giveUpStuck(sub)
	r.surveySlots(sub)
}

// surveySlots has the survey look at the slots that were touched.
func (r *rolling) surveySlots(sub *subJob) {
	sub.Survey.Look(func(index int) (work.Stand, bool) {
		s := sub.slotOf(index)
		switch {
		case s == nil || index >= sub.Tasks || sub.EachAgent && !s.busy() && !s.Trial:
			return work.Absent, false
		case s.Version != r.Version:
			return work.Old, s.up()
		case s.Trial:
			return work.Tried, s.up()
		}
		return work.Changed, s.up()
	})
}

// beginRoll begins a change, and watches that it makes progress.
func (r *rolling) beginRoll(change roll) {
	r.Roll = change
	r.Roll.Active = true
	r.watchProgress()
}

// watchProgress sets the alarm at which the change is given up, if no task proves itself until then.
func (r *rolling) watchProgress() {
	how := r.Job.Rolling()
	if how == nil || !r.Roll.Active && !r.Roll.Stopped {
		return
	}
	r.Roll.Progress = r.now
	r.Alarms.set(alarm{At: r.now.Add(time.Duration(how.ProgressDeadline)), Kind: progressDue})
	if !r.Roll.first() {
		r.Subs[0].Survey.Begin(r.Subs[0].Next)
	}
}

// areAllProven says whether all tasks of a job that has just begun have run well for so long.
func (r *rolling) areAllProven(sub *subJob, proof time.Duration) bool {
	wanted := sub.Tasks
	if sub.EachAgent {
		wanted = max(1, sub.Slots)
	}
	if sub.Running < wanted { // the usual case, in which the slots need not be looked at
		return false
	}
	for _, p := range sub.Parts { // order: irrelevant because all must hold
		for _, s := range p.Slots { // order: irrelevant because all must hold
			if (sub.EachAgent || s.Index < sub.Tasks) && !r.hasProven(s, proof) {
				return false
			}
		}
	}
	return true
}

// hasProven says whether the slot's task has run well for so long.
func (r *rolling) hasProven(s *slot, proof time.Duration) bool {
	return s.up() && r.now.Sub(s.live().Up) >= proof
}

// giveUpStuck ends a change in which no task has proven itself for too long: it goes back, or stops where it is. A
// change that has nothing to go back to is only called stopped: its tasks are still tried.
func (r *rolling) giveUpStuck(sub *subJob) {
	how := r.Job.Rolling()
	if how == nil || !r.Roll.Active || r.now.Sub(r.Roll.Progress) < time.Duration(how.ProgressDeadline) {
		return
	}
	why := fmt.Sprintf("no task of version %d has proven itself within %v (progress_deadline)", r.Version, how.ProgressDeadline)
	if trouble := cmp.Or(sub.describeTrouble(), sub.describeShortage()); trouble != "" {
		why += ": " + trouble
	}
	switch {
	case !r.Roll.first() && !r.Roll.Back:
		r.revertRoll(why)
	case !r.Roll.Stopped:
		r.Roll.Stopped = true
		r.tellEvent("not proven", "%s", why)
		r.versions.judgeVersion(r.Version, why)
		if r.Roll.Why != "" { // why it goes back
			why = r.Roll.Why + "; and " + why
		}
		r.Roll.Why = why
	}
}

// changeSlot replaces the slot's task.
func (r *rolling) changeSlot(sub *subJob, s *slot) {
	if !sub.Keep {
		return
	}
	r.waiting.changeVersion(sub, s, r.Version)
	s.Trial, s.Row = true, 0
	switch {
	case s.busy():
		r.killAttempt(s.live(), work.Unwanted)
	case !s.Queued:
		sub.endPause(s)
		r.waiting.awaitAgent(sub, s)
	}
	r.savePart(sub, s.Index)
}

// endRoll ends a change: all tasks run the version.
func (r *rolling) endRoll() {
	if r.Roll.first() {
		r.Roll = roll{}
	}
	r.Roll.Active, r.Roll.Stopped = false, false
	for _, sub := range r.Subs {
		sub.Survey = work.Survey{}
	}
	r.Stable = r.Version
	if r.Job.Rolling() != nil {
		r.tellEvent("proven", "all run version %d", r.Version)
		r.versions.judgeVersion(r.Version, "")
	}
	r.versions.pruneVersions(r.Stable, r.Roll.From)
	r.saveHeader()
}

// watchProof sets the alarms at which a changed task may have proven itself.
func (r *rolling) watchProof(sub *subJob, s *slot, a *attempt) {
	how := r.Job.Rolling()
	if how == nil || !s.Trial && !r.Roll.first() {
		return
	}
	for _, proof := range []jobs.Duration{how.Proof, how.CanaryProof} {
		r.Alarms.set(alarm{At: r.now.Add(time.Duration(proof)), Kind: proofOver, SubJob: sub.Name, Index: s.Index, Attempt: a.Number})
	}
}

// failTrial handles the end of a changed task that had not proven itself: the service goes back to what it was. It returns
// false if the task is not such a task, or if the service does not go back.
func (r *rolling) failTrial(sub *subJob, s *slot, live *attempt, status api.Status) bool {
	if !r.Roll.Active || r.Roll.Back || !sub.Keep || !s.Trial || live.Version != r.Version || r.Phase != jobs.Running {
		return false
	}
	if !r.revertRoll(string(live.Task) + ": " + wordsOf(live, status, sub.Task)) {
		return false
	}
	if sub.slotOf(s.Index) == nil || s.busy() { // the older version has no such index, or it has a task
		return true
	}
	r.waiting.changeVersion(sub, s, r.Version)
	s.Trial = true
	r.waiting.awaitAgent(sub, s)
	return true
}

// revertRoll makes a service again what it was before a change that has gone wrong. It returns false if the change stops
// instead, because that is wanted, or because there is nothing to go back to.
func (r *rolling) revertRoll(why string) bool {
	r.versions.judgeVersion(r.Version, why)
	if r.Job.Rolling().KeepBad || r.Roll.From == r.Version {
		r.Roll.Active, r.Roll.Stopped, r.Roll.Why = false, true, why
		r.tellEvent("change stopped", "the change to version %d has stopped: %s", r.Version, why)
		return false
	}
	r.tellEvent("going back", "version %d is bad, the service goes back to version %d: %s", r.Version, r.Roll.From, why)
	r.beginRoll(roll{From: r.Roll.From, Back: true, Why: why})
	r.adoptVersion(r.Roll.From)
	return true
}

// ringProgress lets continueRoll look whether a change makes progress. Where there was some meanwhile, it is due later.
func (r *rolling) ringProgress() {
	if how := r.Job.Rolling(); r.Roll.Active && how != nil {
		if at := r.Roll.Progress.Add(time.Duration(how.ProgressDeadline)); at.After(r.now) {
			r.Alarms.set(alarm{At: at, Kind: progressDue})
		}
	}
}

// ringProof notes that a task of a job that begins may have proven itself.
func (r *rolling) ringProof(s *slot) {
	if how := r.Job.Rolling(); r.Roll.first() && how != nil && r.hasProven(s, time.Duration(how.Proof)) {
		r.Roll.Progress = r.now
	}
}

// versions judges the versions of the job, and forgets those that nobody needs.
type versions struct{ *base }

// pruneVersions forgets the oldest versions that are no longer needed.
func (r *versions) pruneVersions(kept ...int) {
	if len(r.Versions) <= VersionsMax {
		return
	}
	needed := map[int]bool{r.Version: true}
	for _, number := range kept {
		needed[number] = true
	}
	for _, sub := range r.Subs {
		needed[sub.Kept] = true
		for _, s := range sub.allSlots() {
			needed[s.Version] = true
			for _, a := range s.tasks() {
				needed[a.Version] = true
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(r.Versions)) {
		if len(r.Versions) <= VersionsMax {
			return
		}
		if !needed[number] {
			delete(r.Versions, number)
			r.emitEffects(Save{VersionKey(number)})
		}
	}
}

// judgeVersion marks a version as proven or, if why is not "", as bad.
func (r *versions) judgeVersion(number int, why string) {
	version := r.Versions[number]
	if proven := why == ""; version.Proven != proven || version.Bad != why {
		version.Proven, version.Bad = proven, why
		r.Versions[number] = version
		r.emitEffects(Save{VersionKey(number)})
	}
}
