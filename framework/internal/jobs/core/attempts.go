package core

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// attempts settles what becomes of tasks. A status is acknowledged when what it has changed is in the store.
type attempts struct {
	*base
	endings    *endings
	waiting    *waiting
	stragglers *stragglers
	rolling    *rolling
	gangs      *gangs
	launches   *launches
}

// requeueUndispatched lets an assigned task that was not launched wait again.
func (r *attempts) requeueUndispatched(e Undispatched) {
	if sub, s, a := r.findAttempt(e.Task); a != nil && !a.Missed {
		r.endAttempt(sub, s, a, api.Status{Task: e.Task, State: api.TaskDropped, Message: e.Why})
	}
}

// hearStatus handles a status. The status is acknowledged when what it has changed is in the store.
func (r *attempts) hearStatus(status api.Status) {
	sub, s, a := r.findAttempt(status.Task)
	switch {
	case a == nil && !status.State.Settled(): // it no longer belongs to the job
		r.emitEffects(Kill{status.Task})
	case a == nil:
	case a.Missed:
		r.hearReturned(sub, s, a, status)
	case status.State.Settled():
		r.endAttempt(sub, s, a, status)
	default:
		r.hearState(sub, s, a, status)
	}
	r.emitEffects(Acknowledge{status})
}

// hearState handles a state that is not terminal.
func (r *attempts) hearState(sub *subJob, s *slot, a *attempt, status api.Status) {
	wasUp, wasSilent, runs := !a.Up.IsZero(), !a.Silent.IsZero(), a.State == api.TaskRunning
	checked := len(r.taskOf(sub, a.Version).Checks) > 0
	a.Hear(status, checked, r.now)
	sub.Survey.Touch(s.Index)
	if runs != (a.State == api.TaskRunning) && a == s.live() {
		sub.Running += map[bool]int{true: -1, false: 1}[runs]
	}
	if status.State == api.TaskUnreachable {
		if !wasSilent {
			r.beginSilence(sub, s, a)
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
		r.rolling.watchProof(sub, s, a)
		r.stragglers.copyStragglers(sub)
	}
}

// lostAfter returns how long a task on a silent agent is awaited.
func (sub *subJob) lostAfter() time.Duration { return time.Duration(sub.Task.LostAfter) }

// beginSilence notes that the agent of a task is taken for dead. Nobody waits for a copy.
func (r *attempts) beginSilence(sub *subJob, s *slot, a *attempt) {
	switch wait := sub.lostAfter(); {
	case a != s.live():
		sub.detachTask(s, a)
		r.savePart(sub, s.Index)
	case a.Kill != work.NotKilled || wait == 0:
		r.giveUpSilent(sub, s, a)
	case wait > 0:
		r.Alarms.set(alarm{At: r.now.Add(wait), Kind: lostLong, SubJob: sub.Name, Index: s.Index, Attempt: a.Number})
	}
}

// giveUpSilent starts the slot's task elsewhere. Should a task come back that was missed before, it is a stray.
func (r *attempts) giveUpSilent(sub *subJob, s *slot, a *attempt) {
	for _, older := range s.tasks() {
		if older.Missed {
			sub.detachTask(s, older)
		}
	}
	sub.setMissed(s, a, true)
	if a.Kill == work.NotKilled && !sub.EachAgent {
		r.addNote("%s was on %s, which is silent; index %d of %s is started elsewhere", a.Task, a.Agent, s.Index, sub.Name)
	}
	switch {
	case sub.Together: // likewise
		sub.dropSlot(s)
	case !sub.EachAgent || r.Phase != jobs.Running:
		r.awaitAttempt(sub, s, 0)
	case r.rolling.Roll.Active && s.Version != r.Version: // the change goes on without it
		sub.renewSlot(s, r.Version)
	}
	r.savePart(sub, s.Index)
}

// awaitAttempt lets a slot wait for its next task, if that is wanted and no copy goes on, after a pause.
func (r *attempts) awaitAttempt(sub *subJob, s *slot, pause time.Duration) {
	if r.Phase != jobs.Running || sub.Keep && s.Index >= sub.Tasks || !sub.Keep && sub.Failed > sub.Failures || sub.Over {
		r.endings.endTasksOfSlot(sub, s)
		sub.dropSlot(s)
		return
	}
	if s.busy() {
		return
	}
	if sub.EachAgent && r.rolling.Roll.Active && s.Version != r.Version { // it takes no part in the change
		r.waiting.changeVersion(sub, s, r.Version)
		s.Trial = true
	}
	if pause <= 0 {
		r.waiting.awaitAgent(sub, s)
		return
	}
	sub.pauseSlot(s, r.now.Add(pause))
	r.Alarms.set(alarm{At: s.Pause, Kind: pauseOver, SubJob: sub.Name, Index: s.Index})
}

// hearReturned handles a task whose agent was taken for dead. If another task was started in its place, one of the two is
// ended; both are if the job no longer wants one. If the older has ended well meanwhile, that counts.
func (r *attempts) hearReturned(sub *subJob, s *slot, older *attempt, status api.Status) {
	switch {
	case status.State == api.TaskUnreachable:
	case status.State == api.TaskFinished && !sub.Keep:
		sub.detachTask(s, older)
		r.settleIndex(sub, s, true)
	case status.State.Settled():
		sub.detachTask(s, older)
		if sub.EachAgent && !s.busy() { // its agent may get another
			sub.dropSlot(s)
		}
		r.savePart(sub, s.Index)
	case older.Kill == work.NotKilled && r.keepReturned(sub, s, older, status):
		r.launches.watchTime(sub, s, older)
		r.addNote("%s is back on %s and goes on", older.Task, older.Agent)
		r.savePart(sub, s.Index)
	default:
		if older.Kill == work.NotKilled && s.busy() {
			r.addNote("%s is back on %s; it ends, for index %d of %s was started elsewhere", older.Task, older.Agent, s.Index, sub.Name)
		}
		r.killAttempt(older, work.Unwanted)
	}
}

// keepReturned lets the slot's older task, which has come back with this status, go on in place of the one that was started
// elsewhere, or beside its copy; false: it is to be ended.
func (r *attempts) keepReturned(sub *subJob, s *slot, older *attempt, status api.Status) bool {
	if live := s.live(); live == nil && older.Version != s.Version || live != nil && live.Kill != work.NotKilled {
		return false
	}
	r.hearState(sub, s, older, status)
	sub.setMissed(s, older, false)
	stays, ends := s.Stays(sub.Keep, func(a *attempt) bool { return a.Version == s.Version })
	if stays != older {
		sub.setMissed(s, older, true)
		return false
	}
	for _, a := range ends {
		r.killAttempt(a, work.Unwanted)
		sub.detachTask(s, a)
	}
	sub.unqueueSlot(s)
	sub.endPause(s)
	return true
}

// endAttempt handles the end of a slot's task.
func (r *attempts) endAttempt(sub *subJob, s *slot, a *attempt, status api.Status) {
	if status.State == api.TaskDropped { // it never began
		s.Tries--
	}
	task := r.taskOf(sub, a.Version)
	rules := work.Rules{Service: sub.Keep, Attempts: task.Attempts, Bound: sub.EachAgent || sub.Together, Backoff: backoffOf(task)}
	var end work.Outcome
	sub.recountSlot(s, func() { end = s.End(a, status, r.now, rules) })
	switch {
	case end.Verdict == work.Well && !(sub.Together && r.gangs.Gang.Regroup):
		if sub.Speculate > 0 && !a.Running.IsZero() {
			sub.Pace.Note(r.now.Sub(a.Running))
		}
		if a.IsCopy() && s.busy() {
			r.addNote("%s was quicker than %s", a.Task, s.live().Task)
		}
		r.settleIndex(sub, s, true)
		return
	case sub.Together:
		r.gangs.endMember(sub, s, a, end.Verdict, wordsOf(a, status, task))
		return
	case end.Verdict == work.Ignored:
	case end.Verdict == work.Lost && sub.EachAgent: // the agent may have left
		sub.dropSlot(s)
		r.savePart(sub, s.Index)
		return
	case end.Verdict == work.Lost:
		if blame := status.Reason.Blame(); s.Row == 1 && (blame == api.BlameTender || blame == api.BlameMachine) {
			r.addNote("%s: %s; that was not its fault, and it is tried again", a.Task, wordsOf(a, status, task))
		}
	default:
		s.Last = fmt.Sprintf("%s: %s", a.Task, wordsOf(a, status, task))
		r.addNote("%s", s.Last)
		if r.rolling.failTrial(sub, s, a, status) {
			r.savePart(sub, s.Index)
			return
		}
		if end.GivenUp {
			r.settleIndex(sub, s, false)
			return
		}
	}
	if s.Avoids != "" && s.Row == work.AvoidAfter {
		r.addNote("index %d of %s has ended badly %d times in a row, the last time on %s; it goes to another agent, if one has room", s.Index, sub.Name,
			s.Row, cmp.Or(a.Hostname, string(a.Agent)))
	}
	r.awaitAttempt(sub, s, end.Pause)
	r.savePart(sub, s.Index)
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
func (r *attempts) settleIndex(sub *subJob, s *slot, done bool) {
	r.endings.endTasksOfSlot(sub, s)
	sub.dropSlot(s)
	sub.noteEnd(s.Index, done)
	if sub.foldPart(s.Index / partSlots) {
		r.saveHeader()
	}
	r.savePart(sub, s.Index)
	r.stragglers.copyStragglers(sub)
}

// endOverdue ends an attempt that has taken too long.
func (r *attempts) endOverdue(s *slot, number int) {
	for _, a := range s.Attempts {
		if a.Number == number && !a.Missed {
			r.killAttempt(a, work.Overdue)
		}
	}
}
