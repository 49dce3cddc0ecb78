package keeper

import (
	"log/slog"
	"testing"
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/testing/clock"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/wallclock"
)

// TestSomebodySetsTheClock (R56): a keeper notices it with whatever it does next, and does so once a minute at least.
// It plans no run before the clock has shown its new time for a minute. By a month ahead the history is not over.
func TestSomebodySetsTheClock(t *testing.T) {
	wall, passed := transcript.Epoch, time.Hour
	const age = 7 * 24 * time.Hour
	k := New(Config{HistoryMost: 10, HistoryAge: age, Log: slog.New(slog.DiscardHandler), Changed: func(string, Step) {},
		Calendar: func(schedule, _ string, after time.Time) (time.Time, error) {
			every, err := time.ParseDuration(schedule)
			return after.Truncate(every).Add(every), err
		}}, clock.At(wall, passed))
	later := func(by time.Duration) time.Time {
		wall, passed = wall.Add(by), passed+by
		return clock.At(wall, passed)
	}
	submit := func(job jobs.Job, now time.Time) *core.JobMaster {
		m := core.New(jobs.Version{Number: 1, At: now, Job: job}, "r1")
		k.Add(m, now)
		return m
	}
	var night, ended *core.JobMaster
	k.Do(later(0), func(now time.Time) {
		night = submit(jobs.Job{Name: "night", Type: jobs.CronType, Task: jobs.Task{Command: "true"}, Cron: &jobs.Cron{Schedule: "1h"}}, now)
		ended = submit(jobs.Job{Name: "ended", Type: jobs.BatchType, Task: jobs.Task{Command: "true"}, Batch: &jobs.Batch{Completions: 1}}, now)
		k.Tell("ended", now, core.Asked{Why: "enough"})
	})
	idle := func(time.Time) {}
	planned := func(want bool, when string) {
		t.Helper()
		if _, waits := night.Unplanned(clock.At(wall, passed)); waits == want {
			t.Errorf("%s: a run is planned: %v", when, !waits)
		}
	}
	planned(true, "at first")
	for _, by := range []time.Duration{720 * time.Hour, -720 * time.Hour, -3 * time.Hour} {
		wall = wall.Add(by)
		k.Do(later(time.Second), idle)
		planned(false, "the clock was set by "+by.String())
		k.Do(later(wallclock.Doubt-time.Second), idle)
		planned(false, "for not quite a minute")
		k.Do(later(time.Second), idle)
		planned(true, "for a minute")
	}
	if !ended.Phase.Ended() || len(k.book.endings) != 1 {
		t.Errorf("the job in the history is %s, and %d are in it", ended.Phase, len(k.book.endings))
	}
	k.Do(later(age), idle)
	if len(k.book.endings) > 0 {
		t.Error("a job stays in the history for too long")
	}
}
