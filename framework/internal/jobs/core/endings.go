package core

import (
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// endings ends tasks: those of an index, of a sub-job, or of the whole job, whose phase it sets. Whoever is killed here
// and comes back later is a stray.
type endings struct{ *base }

// endAsked ends the job because somebody asked for that.
func (r *endings) endAsked(e Asked) {
	switch {
	case e.Delete:
		if r.Phase == jobs.Deleting {
			return
		}
		r.Phase, r.Why = jobs.Deleting, e.Why
	case r.Phase != jobs.Running:
		return
	default:
		r.Phase, r.Why = jobs.Stopping, e.Why
	}
	r.tellEvent(strings.ToLower(string(r.Phase)), "%s", strings.ToLower(string(r.Phase))+": "+e.Why)
	r.endTasks()
}

// failJob ends the job because it can no longer succeed.
func (r *endings) failJob(why string) {
	r.Phase, r.Why = jobs.Failing, why
	r.tellEvent("failing", "it fails: %s", why)
	r.endTasks()
}

// endTasks ends the tasks that run, and drops those that wait.
func (r *endings) endTasks() {
	for _, sub := range r.Subs {
		r.endTasksOf(sub)
	}
}

func (r *endings) endTasksOf(sub *subJob) {
	for _, s := range sub.allSlots() {
		live := s.live()
		for _, second := range s.tasks() {
			if second != live && !second.Missed {
				r.killAttempt(second, work.Unwanted)
				sub.detachTask(s, second)
			}
		}
		if live != nil {
			r.killAttempt(live, work.Unwanted)
		}
		if live == nil || !live.Silent.IsZero() { // if such a task comes back later, it is killed as a stray
			r.endTasksOfSlot(sub, s)
			sub.dropSlot(s)
			r.savePart(sub, s.Index)
		}
	}
}

// dropParts deletes the records of the sub-job's tasks.
func (r *endings) dropParts(sub *subJob) {
	for _, number := range sub.dropParts() {
		r.savePart(sub, number*partSlots)
	}
}

// forgetJob deletes all records of the job.
func (r *endings) forgetJob() {
	for _, sub := range r.Subs {
		r.dropParts(sub)
	}
	numbers := slices.Sorted(maps.Keys(r.Versions))
	r.Versions, r.Alarms, r.Gone = nil, alarmClock{}, true
	for _, number := range numbers {
		r.emitEffects(Save{VersionKey(number)})
	}
	r.emitEffects(Save{HeaderKey}, Forgotten{})
}

// endTasksOfSlot ends the slot's tasks. Later statuses of theirs are those of strays.
func (r *endings) endTasksOfSlot(sub *subJob, s *slot) {
	for _, a := range s.tasks() {
		if !a.Missed {
			r.killAttempt(a, work.Unwanted)
			sub.detachTask(s, a)
		}
	}
}
