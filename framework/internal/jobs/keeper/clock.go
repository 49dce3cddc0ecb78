package keeper

import (
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/internal/wallclock"
)

// managerClock is what a keeper knows of the wall clock.
type managerClock struct {
	calendar wallclock.Calendar
	doubted  bool // the clock was set, and runs are not planned by it yet
}

// lookAtClock tells all jobs when somebody has set the wall clock. Runs of cron jobs are planned again when the clock
// has shown its new time for long enough to be trusted. (Protocol rule R56.)
func (k *Keeper) lookAtClock(now time.Time) {
	believed := !now.Before(k.clock.calendar.Trusted())
	switch by := k.clock.calendar.Look(now); {
	case by != 0:
		k.config.Log.Warn("the wall clock was set; cron jobs and deadlines go by it again when it has stayed for a while", "by", by, "while", wallclock.Doubt)
		k.clock.doubted = true
		for _, name := range k.book.names {
			k.stepOnce(k.book.jobs[name], now, core.ClockSet{By: by, Doubt: k.clock.calendar.Trusted(), Believed: believed})
		}
		for i, old := range k.book.endings {
			if e := k.book.ended(old); e != nil {
				k.book.endings[i].at = k.endedAt(e.master, now)
			}
		}
	case k.clock.doubted && !now.Before(k.clock.calendar.Trusted()):
		k.clock.doubted = false
		for _, name := range k.book.names {
			k.planRuns(k.book.jobs[name], now, wallclock.Doubt)
		}
	}
}

// endedAt returns when a job ended, for its age in the history. What the store says of it is believed only in so far
// that the job is kept for another minute, and no longer than if it had ended now.
func (k *Keeper) endedAt(m *core.JobMaster, now time.Time) time.Time {
	return now.Add(max(min(0, m.EndedAt.Sub(now)), wallclock.Doubt-k.config.HistoryAge))
}

// planRuns tells a cron job when its next run is due, as long as the job asks and the wall clock is trusted. It was not
// trusted before for as long as doubted says.
func (k *Keeper) planRuns(e *entry, now time.Time, doubted time.Duration) (effects []core.Effect) {
	for from, is := e.master.Unplanned(now); is && !k.clock.doubted; from, is = e.master.Unplanned(now) {
		planned, err := e.master.PlanRun(k.config.Calendar, from, now)
		planned.Doubted = doubted
		if err != nil { // it was checked before, perhaps by a manager that knows more time zones
			k.config.Log.Error("nobody knows when a job is due", "job", e.name, "error", err)
			return effects
		}
		effects = append(effects, k.stepOnce(e, now, planned)...)
	}
	return effects
}
