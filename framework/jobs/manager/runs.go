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
		planned, err := e.master.PlanRun(m.config.Calendar, from, now)
		planned.Doubted = doubted
		if err != nil { // it was checked before, perhaps by a manager that knows more time zones
			m.config.Logger.Error("nobody knows when a job is due", "job", e.name, "error", err)
			return effects
		}
		effects = append(effects, m.stepOnce(e, now, planned)...)
	}
	return effects
}
