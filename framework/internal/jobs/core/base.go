package core

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/internal/work"
)

// base is what all rooms of a JobMaster share: the job as it should be, its sub-jobs, its alarms, what people are told,
// and the event at hand with its effects. It decides nothing.
type base struct {
	Job       jobs.Job // the job as it should be, with its defaults
	Run       string   // distinguishes this run of the job from earlier runs of the same name
	Version   int      // of Job
	Versions  map[int]jobs.Version
	Phase     jobs.Phase
	Why       string
	Submitted time.Time
	EndedAt   time.Time
	Gone      bool // the job is deleted, and none of its records is kept
	Subs      []*subJob
	Notes     []jobs.Note
	Alarms    alarmClock

	now     time.Time
	doubt   time.Time // during a step: until when the wall clock is not trusted
	effects []Effect
}

// dueAfter returns when so much time has passed since then, but no sooner than the clock is trusted, and no later than
// from now on.
func (b *base) dueAfter(then time.Time, span time.Duration) time.Time {
	return b.now.Add(min(span, max(then.Add(span).Sub(b.now), b.doubt.Sub(b.now))))
}

// tellRoutine tells the masters' history what a cron job does all the time. It is no note for people, as it would push
// out all others.
func (b *base) tellRoutine(what, format string, values ...any) {
	told := b.makeEvent(what, fmt.Sprintf(format, values...))
	told.Event.Routine = true
	b.emitEffects(told)
}

// Bounds of what is kept of a job.
const (
	// VersionsMax bounds the versions; beyond it the oldest version that is not needed is forgotten.
	VersionsMax = 10
	// NotesMax bounds the notes; beyond it the oldest is forgotten.
	NotesMax = 20
	// NoteBytesMax bounds a note; a longer one is cut off.
	NoteBytesMax = 300
)

func (b *base) emitEffects(effects ...Effect) {
	for _, effect := range effects {
		if _, is := effect.(Save); !is || !slices.Contains(b.effects, effect) { // one is enough for the whole step
			b.effects = append(b.effects, effect)
		}
	}
}

func (b *base) saveHeader() { b.emitEffects(Save{HeaderKey}) }

func (b *base) savePart(sub *subJob, index int) {
	b.emitEffects(Save{partKey(sub.Name, index/partSlots)})
}

// addNote adds a note for people.
func (b *base) addNote(format string, values ...any) {
	b.Notes = append(b.Notes, jobs.Note{At: b.now, Text: cutText(fmt.Sprintf(format, values...))})
	b.Notes = b.Notes[max(0, len(b.Notes)-NotesMax):]
	b.saveHeader()
}

// cutText cuts a note off where it becomes too long.
func cutText(text string) string {
	if len(text) > NoteBytesMax {
		text = strings.ToValidUTF8(text[:NoteBytesMax], "") + "…"
	}
	return text
}

// tellEvent adds a note for people, which the masters' history keeps too.
func (b *base) tellEvent(what, format string, values ...any) {
	b.addNote(format, values...)
	b.emitEffects(b.makeEvent(what, b.Notes[len(b.Notes)-1].Text))
}

// makeEvent makes an event of the job.
func (b *base) makeEvent(what, why string) Tell {
	return Tell{api.JobEvent{Job: b.Job.Name, What: what, Why: why, Role: b.Job.Role, Owner: b.Versions[b.Version].Owner}}
}

func (b *base) killAttempt(a *attempt, why work.Kill) {
	if a.Ends(why) {
		b.emitEffects(Kill{a.Task})
	}
}

func (b *base) subJobNamed(name string) *subJob {
	for _, sub := range b.Subs {
		if sub.Name == name {
			return sub
		}
	}
	return nil
}

// taskOf returns what the sub-job's tasks run in this version.
func (b *base) taskOf(sub *subJob, version int) jobs.Task {
	if version == b.Version {
		return sub.Task
	}
	if old, is := b.Versions[version]; is {
		for _, planned := range old.Job.Plan().SubJobs {
			if planned.Name == sub.Name {
				return planned.Task
			}
		}
	}
	return sub.Task
}

// versionOf returns the version of the job that new indexes of the sub-job get.
func (b *base) versionOf(sub *subJob) int { return cmp.Or(sub.Kept, b.Version) }

// parseTask returns the sub-job, index and attempt that a task's ID names: NAME.RUN.SUBJOB.INDEX.ATTEMPT.
func (b *base) parseTask(id api.TaskID) (sub *subJob, index, attempt int, ok bool) {
	parts := strings.Split(string(id), ".")
	if len(parts) != 5 || parts[0] != b.Job.Name || parts[1] != b.Run {
		return nil, 0, 0, false
	}
	index, err := strconv.Atoi(parts[3])
	attempt, err2 := strconv.Atoi(parts[4])
	sub = b.subJobNamed(parts[2])
	return sub, index, attempt, sub != nil && err == nil && err2 == nil
}

func (b *base) taskID(sub *subJob, index, attempt int) api.TaskID {
	return api.TaskID(b.Job.Name + "." + b.Run + "." + sub.Name + "." + strconv.Itoa(index) + "." + strconv.Itoa(attempt))
}

// findAttempt returns the attempt that a task is; nil: it does not belong to the job any more.
func (b *base) findAttempt(task api.TaskID) (sub *subJob, s *slot, a *attempt) {
	sub, index, _, ok := b.parseTask(task)
	if !ok {
		return sub, nil, nil
	}
	if s = sub.slotOf(index); s != nil {
		a = s.Of(task)
	}
	return sub, s, a
}

// alarm is something that has to happen at a given time. An alarm that is out of date does nothing.
type alarm struct {
	At      time.Time
	Kind    alarmKind
	SubJob  string
	Index   int
	Attempt int
}

type alarmKind uint8

const (
	pauseOver   alarmKind = iota // the pause of a slot is over
	timeOver                     // an attempt has taken too long
	lostLong                     // an attempt's agent has been silent for long enough
	proofOver                    // an attempt may have proven itself
	deadlineAt                   // deadline of the job, or of a run (its sub-job)
	runDue                       // a run of a cron job is due
	gangPause                    // a gang may begin anew
	unclaimed                    // a slot's agent was not offered for too long
	straggles                    // a task of the sub-job may be slow by now
	avoidOver                    // a slot may go again to the agent that it avoids
	progressDue                  // a change may have made no progress for too long
)

// alarmClock holds the alarms that are set.
type alarmClock struct{ alarms.Alarms[alarm] }

// set sets an alarm.
func (a *alarmClock) set(due alarm) { a.Add(due.At, due) }
