package manager

import (
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
)

// planRuns tells a cron job when its next run is due, as long as the job asks and the wall clock is trusted.
func (m *Manager) planRuns(e *entry, now time.Time) []core.Effect { return m.planRunsAfter(e, now, 0) }

// planRunsAfter is planRuns when the wall clock was not trusted for so long.
func (m *Manager) planRunsAfter(e *entry, now time.Time, doubted time.Duration) (effects []core.Effect) {
	for from, is := e.master.Unplanned(now); is && !m.clock.doubted; from, is = e.master.Unplanned(now) {
		planned, err := m.planRun(e.master, from, now)
		planned.Doubted = doubted
		if err != nil { // it was checked before, perhaps by a manager that knows more time zones
			m.config.Logger.Error("nobody knows when a job is due", "job", e.name, "error", err)
			return effects
		}
		effects = append(effects, m.stepOnce(e, now, planned)...)
	}
	return effects
}

func (m *Manager) planRun(master *core.JobMaster, from, now time.Time) (planned core.Planned, err error) {
	how := master.Job.Cron
	if err := master.Job.CheckSchedule(m.config.Calendar, now); err != nil {
		return planned, err
	}
	next := func(after time.Time) time.Time {
		at, failed := m.config.Calendar(how.Schedule, how.Zone, after)
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
