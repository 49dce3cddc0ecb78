package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/wallclock"
)

// cron is what a cron job remembers of its runs. Each run that goes on is a sub-job.
type cron struct {
	From   time.Time      `json:"from"` // runs that were due up to then have begun or were skipped
	Next   time.Time      `json:"-"`    // when the next run is due; zero: the manager has to tell (Planned)
	Number int            `json:"number,omitempty"`
	Runs   []run          `json:"runs,omitempty"` // runs that go on, the oldest first
	Past   []jobs.CronRun `json:"past,omitempty"` // runs that have ended, the oldest first
}

// run is a run of a cron job that goes on.
type run struct {
	Number  int       `json:"n"`
	Due     time.Time `json:"due"`
	Began   time.Time `json:"began"`
	Version int       `json:"version"`
	After   []string  `json:"after,omitempty"`  // runs that this one replaces and that have not ended
	Ending  string    `json:"ending,omitempty"` // why it is being ended early: its state once that is done
}

func (r run) name() string { return fmt.Sprintf("run-%d", r.Number) }

// subJob returns the sub-job of the run, made from the job's version with which it began.
func (r run) subJob(job jobs.Job) *subJob {
	planned := job.Plan().SubJobs[0]
	planned.Name, planned.After, planned.When = r.name(), slices.Clone(r.After), jobs.Always
	s := newSubJob(planned)
	s.Over = r.Ending != ""
	return s
}

// find returns the position of the run whose sub-job has this name; -1: there is no such run.
func (c *cron) find(name string) int {
	return slices.IndexFunc(c.Runs, func(r run) bool { return r.name() == name })
}

// versionOf returns the version of the job that new indexes of the sub-job get. A run keeps the version with which it
// began.
func (c *cron) versionOf(s *subJob, current int) int {
	if at := c.find(s.Name); at >= 0 {
		return c.Runs[at].Version
	}
	return current
}

// Unplanned reports whether the job waits to be told when its next run is due ([Planned]), which is the first time
// after from. If the last run was due more than a minute from now, some clock was wrong when it began or is wrong now,
// and from is now: otherwise nothing would run until then. The clocks of two managers may differ by a minute without
// any run beginning twice. (Protocol rule R56.)
func (m *JobMaster) Unplanned(now time.Time) (from time.Time, is bool) {
	if from = m.Cron.From; from.Sub(now.Round(0)) > wallclock.Doubt {
		from = now
	}
	return from, m.Job.Cron != nil && m.Phase == jobs.Running && m.Cron.Next.IsZero()
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

// plan handles when the next run is due. A run whose time has passed begins now, or was missed.
func (m *JobMaster) plan(e Planned) {
	if _, is := m.Unplanned(m.now); !is {
		return
	}
	switch late := jobs.OnTime + e.Doubted; {
	case e.Next.After(m.now):
		m.Cron.Next = e.Next
		m.Alarms.set(alarm{At: m.now.Add(e.Next.Sub(m.now)), Kind: runDue}) // from here on by the monotonic clock
	case e.Latest.Equal(e.Next) && m.now.Sub(e.Next) <= late:
		m.due(e.Next)
	case m.Job.Cron.Missed == jobs.RunOnce:
		m.tellEvent("missed", "what was due since %s was missed; one run makes up for it", timeText(e.Next))
		m.due(e.Latest)
	case m.now.Sub(e.Latest) <= late: // the latest run is on time, and only those before it were missed
		m.tellEvent("missed", "what was due from %s on was missed and is skipped, up to the run of %s", timeText(e.Next), timeText(e.Latest))
		m.due(e.Latest)
	default:
		m.tellEvent("missed", "what was due from %s to %s was missed, and is skipped", timeText(e.Next), timeText(e.Latest))
		m.Cron.From = e.Latest
	}
}

func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// due begins the run that is due, if the runs before it allow that.
func (m *JobMaster) due(at time.Time) {
	c := &m.Cron
	c.From, c.Next = at, time.Time{}
	m.saveHeader()
	if !m.mayBegin() {
		m.tellEvent("skipped", "the run of %s is skipped, for run %d goes on", timeText(at), c.Runs[0].Number)
		return
	}
	m.beginRun(at, "")
}

// mayBegin reports whether the runs that go on allow another one.
func (m *JobMaster) mayBegin() bool {
	how, n := m.Job.Cron, len(m.Cron.Runs)
	return n == 0 || how.Overlap == jobs.Replace || how.Overlap == jobs.Allow && n < min(jobs.RunsMax, max(1, jobs.TasksMax/how.Parallelism))
}

// MayRun returns why the run of this number can't begin now ([RunAsked]), or nil. begun: it has begun before.
func (m *JobMaster) MayRun(number int) (begun bool, err error) {
	const op = "job.run-now"
	c, name := &m.Cron, m.Job.Name
	switch next := c.Number + 1; {
	case m.Job.Cron == nil:
		return false, api.E(op, api.Invalid, name, fmt.Errorf("only a cron job has runs; this is a %s", m.Job.Type))
	case m.Phase != jobs.Running:
		return false, api.E(op, api.Stale, name, fmt.Errorf("it is %s; submit it to begin it anew", m.Phase))
	case number < next:
		return true, nil
	case number > next:
		return false, api.E(op, api.Invalid, name, fmt.Errorf("the next run is number %d, not %d", next, number))
	case !m.mayBegin():
		return false, api.E(op, api.Stale, name, fmt.Errorf("run %d goes on, and the job's overlap is %q; wait until it has ended", c.Runs[0].Number, m.Job.Cron.Overlap))
	}
	return false, nil
}

// beginRun begins the next run, if need be instead of those that go on. why says who wants it; empty: the schedule.
func (m *JobMaster) beginRun(due time.Time, why string) {
	c := &m.Cron
	next := run{Number: c.Number + 1, Due: due.Round(0), Began: m.now, Version: m.Version}
	if m.Job.Cron.Overlap == jobs.Replace {
		for _, older := range slices.Clone(c.Runs) {
			next.After = append(next.After, older.name())
			m.endRun(older.name(), "replaced")
		}
	}
	c.Number = next.Number
	c.Runs = append(c.Runs, next)
	m.Subs = append(m.Subs, next.subJob(m.Job))
	m.watchRun(next, m.Job)
	m.saveHeader()
	if why != "" {
		m.tellEvent("run started", "run %d: %s", next.Number, why)
		return
	}
	m.tellRoutine("run started", "run %d of %s", next.Number, timeText(due))
}

// tellRoutine tells the masters' history what a cron job does all the time. It is no note for people, as it would push
// out all others.
func (m *JobMaster) tellRoutine(what, format string, values ...any) {
	told := m.makeEvent(what, fmt.Sprintf(format, values...))
	told.Event.Routine = true
	m.emit(told)
}

// watchRun sets the alarm for the deadline of a run.
func (m *JobMaster) watchRun(r run, job jobs.Job) {
	if limit := time.Duration(job.WithDefaults().Cron.Deadline); limit > 0 {
		m.Alarms.set(alarm{At: m.dueAfter(r.Began, limit), Kind: deadlineAt, SubJob: r.name()})
	}
}

// endRun ends a run early.
func (m *JobMaster) endRun(name, why string) {
	at := m.Cron.find(name)
	if at < 0 || m.Cron.Runs[at].Ending != "" {
		return
	}
	m.Cron.Runs[at].Ending = why
	s := m.subJobNamed(name)
	s.Over = true
	m.endTasksOf(s)
	m.saveHeader()
}

// concludeRuns ends the runs that have nothing left to do.
func (m *JobMaster) concludeRuns() {
	for _, r := range slices.Clone(m.Cron.Runs) {
		s := m.subJobNamed(r.name())
		if s.Failed > s.Failures {
			m.endTasksOf(s)
		}
		switch one := s.ownEnd(); {
		case s.Slots > 0:
		case r.Ending != "":
			m.runEnded(r, r.Ending)
		case one != goesOn:
			m.runEnded(r, one.String())
		}
	}
	m.endsOfSubJobs() // a run that replaces another one may begin now
}

// runEnded keeps of a run what the history needs.
func (m *JobMaster) runEnded(r run, state string) {
	c, s := &m.Cron, m.subJobNamed(r.name())
	c.Past = append(c.Past, jobs.CronRun{Number: r.Number, Due: r.Due, Began: r.Began, Ended: m.now, Version: r.Version, State: state,
		Done: s.Done, Failed: s.Failed})
	c.Past = slices.Clone(c.Past[max(0, len(c.Past)-m.Job.Cron.Keep):])
	m.emit(s.dropParts()...)
	m.Subs = slices.DeleteFunc(m.Subs, func(one *subJob) bool { return one == s })
	c.Runs = slices.DeleteFunc(c.Runs, func(one run) bool { return one.Number == r.Number })
	isIt := func(name string) bool { return name == s.Name }
	for i := range c.Runs {
		c.Runs[i].After = slices.DeleteFunc(c.Runs[i].After, isIt)
	}
	for _, one := range m.Subs {
		one.After = slices.DeleteFunc(one.After, isIt)
	}
	if state != success {
		m.tellEvent("run failed", "run %d of %s ended: %s; %d done, %d failed", r.Number, timeText(r.Due), state, s.Done, s.Failed)
	} else {
		m.tellRoutine("run done", "run %d of %s", r.Number, timeText(r.Due))
	}
	m.saveHeader()
	m.pruneVersions()
}
