package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/wallclock"
)

// runs begins the runs of a cron job when they are due, and remembers what became of them.
type runs struct {
	*base
	endings  *endings
	steps    *steps
	versions *versions

	Cron cron
}

// cron is what a cron job remembers of its runs. Each run that goes on is a sub-job.
type cron struct {
	From   time.Time      `json:"from"` // runs that were due up to then have begun or were skipped
	Next   time.Time      `json:"-"`    // when the next run is due; zero: the manager has to tell (Planned)
	Number int            `json:"number,omitempty"`
	Runs   []cronRun      `json:"runs,omitempty"` // runs that go on, the oldest first
	Past   []jobs.CronRun `json:"past,omitempty"` // runs that have ended, the oldest first
}

// cronRun is a run of a cron job that goes on.
type cronRun struct {
	Number  int       `json:"n"`
	Due     time.Time `json:"due"`
	Began   time.Time `json:"began"`
	Version int       `json:"version"`
	After   []string  `json:"after,omitempty"`  // runs that this one replaces and that have not ended
	Ending  string    `json:"ending,omitempty"` // why it is being ended early: its state once that is done
}

func (run cronRun) name() string { return fmt.Sprintf("run-%d", run.Number) }

// subJob returns the sub-job of the run, made from the job's version with which it began.
func (run cronRun) subJob(job jobs.Job) *subJob {
	planned := job.Plan().SubJobs[0]
	planned.Name, planned.After, planned.When = run.name(), slices.Clone(run.After), jobs.Always
	sub := newSubJob(planned)
	sub.Kept, sub.Due, sub.Over = run.Version, run.Due, run.Ending != ""
	return sub
}

// Unplanned reports whether the job waits to be told when its next run is due ([Planned]), which is the first time
// after from. If the last run was due more than a minute from now, some clock was wrong when it began or is wrong now,
// and from is now: otherwise nothing would run until then. The clocks of two managers may differ by a minute without
// any run beginning twice. (Protocol rule R56.)
func (m *JobMaster) Unplanned(now time.Time) (from time.Time, is bool) { return m.runs.needsPlan(now) }

func (r *runs) needsPlan(now time.Time) (from time.Time, is bool) {
	if from = r.Cron.From; from.Sub(now.Round(0)) > wallclock.Doubt {
		from = now
	}
	return from, r.Job.Cron != nil && r.Phase == jobs.Running && r.Cron.Next.IsZero()
}

// PlanRun asks the calendar when the next run is due after a time that [JobMaster.Unplanned] has returned.
func (m *JobMaster) PlanRun(calendar jobs.Calendar, from, now time.Time) (planned Planned, err error) {
	how := m.Job.Cron
	if err := m.Job.CheckSchedule(calendar, now); err != nil {
		return planned, err
	}
	next := func(after time.Time) time.Time {
		at, failed := calendar(how.Schedule, how.Zone, after)
		if failed != nil || at.IsZero() {
			err = failed
			return now.AddDate(1000, 0, 0) // never
		}
		return at
	}
	if planned.Next = next(from); !planned.Next.After(now) {
		planned.Latest = latestDue(planned.Next, now, next)
	}
	return planned, err
}

// latestDue returns the last time up to now at which a run was due; first is the first such time. It looks back a short
// time and then further and further, so that it need not go through everything that was missed in a year.
func latestDue(first, now time.Time, next func(after time.Time) time.Time) time.Time {
	for back := time.Minute; ; back *= 2 {
		latest := first
		if from := now.Add(-back); from.After(first) {
			latest = next(from)
		}
		if latest.After(now) {
			continue
		}
		for at := next(latest); !at.After(now); at = next(at) {
			latest = at
		}
		return latest
	}
}

// resetSchedule lets a cron job whose schedule may have changed go by it from now on.
func (r *runs) resetSchedule() {
	if r.Job.Cron != nil {
		r.Cron.From, r.Cron.Next = r.now, time.Time{}
	}
}

// planNext handles when the next run is due. A run whose time has passed begins now, or was missed.
func (r *runs) planNext(e Planned) {
	if _, is := r.needsPlan(r.now); !is {
		return
	}
	switch late := jobs.OnTime + e.Doubted; {
	case e.Next.After(r.now):
		r.Cron.Next = e.Next
		r.Alarms.set(alarm{At: r.now.Add(e.Next.Sub(r.now)), Kind: runDue}) // from here on by the monotonic clock
	case e.Latest.Equal(e.Next) && r.now.Sub(e.Next) <= late:
		r.beginDue(e.Next)
	case r.Job.Cron.Missed == jobs.RunOnce:
		r.tellEvent("missed", "what was due since %s was missed; one run makes up for it", timeText(e.Next))
		r.beginDue(e.Latest)
	case r.now.Sub(e.Latest) <= late: // the latest run is on time, and only those before it were missed
		r.tellEvent("missed", "what was due from %s on was missed and is skipped, up to the run of %s", timeText(e.Next), timeText(e.Latest))
		r.beginDue(e.Latest)
	default:
		r.tellEvent("missed", "what was due from %s to %s was missed, and is skipped", timeText(e.Next), timeText(e.Latest))
		r.Cron.From = e.Latest
	}
}

func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// beginDue begins the run that is due, if the runs before it allow that.
func (r *runs) beginDue(at time.Time) {
	c := &r.Cron
	c.From, c.Next = at, time.Time{}
	r.saveHeader()
	if !r.mayBegin() {
		r.tellEvent("skipped", "the run of %s is skipped, for run %d goes on", timeText(at), c.Runs[0].Number)
		return
	}
	r.beginRun(at, "")
}

// mayBegin reports whether the runs that go on allow another one.
func (r *runs) mayBegin() bool {
	how, n := r.Job.Cron, len(r.Cron.Runs)
	return n == 0 || how.Overlap == jobs.Replace || how.Overlap == jobs.Allow && n < min(jobs.RunsMax, max(1, jobs.TasksMax/how.Parallelism))
}

// MayRun returns why the run of this number can't begin now ([RunAsked]), or nil. begun: it has begun before.
func (m *JobMaster) MayRun(number int) (begun bool, err error) {
	const op = "job.run-now"
	c, name := &m.runs.Cron, m.Job.Name
	switch next := c.Number + 1; {
	case m.Job.Cron == nil:
		return false, api.E(op, api.Invalid, name, fmt.Errorf("only a cron job has runs; this is a %s", m.Job.Type))
	case m.Phase != jobs.Running:
		return false, api.E(op, api.Stale, name, fmt.Errorf("it is %s; submit it to begin it anew", m.Phase))
	case number < next:
		return true, nil
	case number > next:
		return false, api.E(op, api.Invalid, name, fmt.Errorf("the next run is number %d, not %d", next, number))
	case !m.runs.mayBegin():
		return false, api.E(op, api.Stale, name, fmt.Errorf("run %d goes on, and the job's overlap is %q; wait until it has ended", c.Runs[0].Number, m.Job.Cron.Overlap))
	}
	return false, nil
}

// beginRun begins the next run, if need be instead of those that go on. why says who wants it; empty: the schedule.
func (r *runs) beginRun(due time.Time, why string) {
	c := &r.Cron
	next := cronRun{Number: c.Number + 1, Due: due.Round(0), Began: r.now, Version: r.Version}
	if r.Job.Cron.Overlap == jobs.Replace {
		for _, older := range slices.Clone(c.Runs) {
			next.After = append(next.After, older.name())
			r.endRun(older.name(), "replaced")
		}
	}
	c.Number = next.Number
	c.Runs = append(c.Runs, next)
	r.Subs = append(r.Subs, next.subJob(r.Job))
	r.watchRun(next, r.Job)
	r.saveHeader()
	if why != "" {
		r.tellEvent("run started", "run %d: %s", next.Number, why)
		return
	}
	r.tellRoutine("run started", "run %d of %s", next.Number, timeText(due))
}

// watchRun sets the alarm for the deadline of a run.
func (r *runs) watchRun(run cronRun, job jobs.Job) {
	if limit := time.Duration(job.WithDefaults().Cron.Deadline); limit > 0 {
		r.Alarms.set(alarm{At: r.dueAfter(run.Began, limit), Kind: deadlineAt, SubJob: run.name()})
	}
}

// endRun ends a run early.
func (r *runs) endRun(name, why string) {
	at := slices.IndexFunc(r.Cron.Runs, func(run cronRun) bool { return run.name() == name })
	if at < 0 || r.Cron.Runs[at].Ending != "" {
		return
	}
	r.Cron.Runs[at].Ending = why
	sub := r.subJobNamed(name)
	sub.Over = true
	r.endings.endTasksOf(sub)
	r.saveHeader()
}

// concludeRuns ends the runs that have nothing left to do.
func (r *runs) concludeRuns() {
	for _, run := range slices.Clone(r.Cron.Runs) {
		sub := r.subJobNamed(run.name())
		if sub.Failed > sub.Failures {
			r.endings.endTasksOf(sub)
		}
		switch own := sub.ownEnd(); {
		case sub.Slots > 0:
		case run.Ending != "":
			r.closeRun(run, run.Ending)
		case own != goesOn:
			r.closeRun(run, own.String())
		}
	}
	r.steps.findEnds() // a run that replaces another one may begin now
}

// closeRun keeps of a run what the history needs.
func (r *runs) closeRun(run cronRun, state string) {
	c, sub := &r.Cron, r.subJobNamed(run.name())
	c.Past = append(c.Past, jobs.CronRun{Number: run.Number, Due: run.Due, Began: run.Began, Ended: r.now, Version: run.Version, State: state,
		Done: sub.Done, Failed: sub.Failed})
	c.Past = slices.Clone(c.Past[max(0, len(c.Past)-r.Job.Cron.Keep):])
	r.endings.dropParts(sub)
	r.Subs = slices.DeleteFunc(r.Subs, func(other *subJob) bool { return other == sub })
	c.Runs = slices.DeleteFunc(c.Runs, func(other cronRun) bool { return other.Number == run.Number })
	isIt := func(name string) bool { return name == sub.Name }
	for i := range c.Runs {
		c.Runs[i].After = slices.DeleteFunc(c.Runs[i].After, isIt)
	}
	for _, other := range r.Subs {
		other.After = slices.DeleteFunc(other.After, isIt)
	}
	if state != success {
		r.tellEvent("run failed", "run %d of %s ended: %s; %d done, %d failed", run.Number, timeText(run.Due), state, sub.Done, sub.Failed)
	} else {
		r.tellRoutine("run done", "run %d of %s", run.Number, timeText(run.Due))
	}
	r.saveHeader()
	r.versions.pruneVersions()
}

// ringRun begins a run that is due.
func (r *runs) ringRun(at time.Time) {
	switch {
	case !at.Equal(r.Cron.Next):
	case r.now.Sub(at) <= jobs.OnTime:
		r.beginDue(at)
	default:
		r.Cron.Next = time.Time{} // this run was missed, and maybe later ones too: the manager has to tell
	}
}
