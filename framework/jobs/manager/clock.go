package manager

import (
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/internal/wallclock"
)

// managerClock is what a manager knows of its wall clock.
type managerClock struct {
	calendar wallclock.Calendar
	doubted  bool // the clock was set, and runs are not planned by it yet
}

// lookAtClock tells all jobs when somebody has set the wall clock. Runs of cron jobs are planned again when the clock
// has shown its new time for long enough to be trusted. (Protocol rule R56.)
func (m *Manager) lookAtClock(now time.Time) {
	believed := !now.Before(m.clock.calendar.Trusted())
	switch by := m.clock.calendar.Look(now); {
	case by != 0:
		m.config.Logger.Warn("the wall clock was set; cron jobs and deadlines go by it again when it has stayed for a while", "by", by, "while", wallclock.Doubt)
		m.clock.doubted = true
		for _, name := range m.names {
			m.stepOnce(m.jobs[name], now, core.ClockSet{By: by, Doubt: m.clock.calendar.Trusted(), Believed: believed})
		}
		for i, old := range m.endings {
			if e := m.jobs[old.name]; e != nil && e.master.Run == old.run {
				m.endings[i].at = m.endedAt(e.master, now)
			}
		}
	case m.clock.doubted && !now.Before(m.clock.calendar.Trusted()):
		m.clock.doubted = false
		for _, name := range m.names {
			m.planRunsAfter(m.jobs[name], now, wallclock.Doubt)
		}
	}
}

// endedAt returns when a job ended, for its age in the history. What the store says of it is believed only in so far
// that the job is kept for another minute, and no longer than if it had ended now.
func (m *Manager) endedAt(master *core.JobMaster, now time.Time) time.Time {
	return now.Add(max(min(0, master.EndedAt.Sub(now)), wallclock.Doubt-m.config.HistoryAge))
}
