package jobs

import (
	"cmp"
	"time"
)

// Cron says when the runs of a cron job begin. Each run is a batch, and a sub-job called run-NUMBER.
type Cron struct {
	// Schedule has five fields: minute, hour, day of the month, month and day of the week, as in "30 2 * * mon-fri". Or
	// it is one of @hourly, @daily, @weekly, @monthly and @yearly.
	Schedule string `json:"schedule" toml:"schedule" rule:"required"`
	// Zone is the time zone of the schedule, such as "Europe/Berlin". Default UTC.
	Zone string `json:"zone,omitempty" toml:"zone"`
	// Overlap says what happens when a run is due while an earlier one goes on: the new run is skipped ("forbid", the
	// default), begins beside the earlier one ("allow"), or begins once the earlier one was ended for it ("replace").
	Overlap Overlap `json:"overlap,omitempty" toml:"overlap" rule:"forbid|allow|replace"`
	// Missed says what happens with runs that were due while there was no manager: the latest of them begins late
	// ("once", the default), or none does ("skip"). A run that is at most a minute late was not missed.
	Missed Missed `json:"missed,omitempty" toml:"missed" rule:"once|skip"`
	// Keep is how many ended runs are remembered. Default 10.
	Keep int `json:"keep,omitempty" toml:"keep" rule:"1..100"`
	// Completions, Parallelism, Failures, Deadline and Speculate mean for each run what they mean for a batch. The
	// deadline counts from the beginning of the run, and a task is compared with the other tasks of its run.
	Completions int      `json:"completions,omitempty" toml:"completions" rule:"1..100000000"`
	Parallelism int      `json:"parallelism,omitempty" toml:"parallelism" rule:"1..10000"`
	Failures    int      `json:"failures,omitempty" toml:"failures" rule:"0..100000000"`
	Deadline    Duration `json:"deadline,omitempty" toml:"deadline" rule:"positive"`
	Speculate   float64  `json:"speculate,omitempty" toml:"speculate" rule:"1.1..1000"`
}

// Overlap says what happens when a run is due while another goes on.
type Overlap string

// The policies for runs that would overlap.
const (
	Forbid  Overlap = "forbid"
	Allow   Overlap = "allow"
	Replace Overlap = "replace"
)

// Missed says what happens with runs that were due while nobody could begin them.
type Missed string

// The policies for runs that were missed.
const (
	RunOnce Missed = "once"
	Skip    Missed = "skip"
)

// Bounds and defaults of cron jobs.
const (
	DefaultKeep = 10
	// KeepMax bounds Keep.
	KeepMax = 100
	// RunsMax bounds the runs of a job that go on at a time. A further run is skipped.
	RunsMax = 100
	// OnTime is how late a run may begin without counting as missed.
	OnTime = time.Minute
	// ScheduleBytesMax bounds a schedule, and also the name of a time zone.
	ScheduleBytesMax = 256
)

// Calendar returns when a schedule is next due after a time; the zero time: never again. It is a function that the
// caller passes in, because the SDK itself does not read schedules or know time zones.
type Calendar func(schedule, zone string, after time.Time) (time.Time, error)

// CronRun is a run of a cron job that has ended.
type CronRun struct {
	Number  int       `json:"number"`
	Due     time.Time `json:"due"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Version int       `json:"version"`
	// State is success, failure, overdue (the deadline was over), replaced (by a later run), or stopped (with the job).
	State  string `json:"state"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
}

func (c *Cron) withDefaults() *Cron {
	var full Cron
	if c != nil {
		full = *c
	}
	batch := (&Batch{Completions: full.Completions, Parallelism: full.Parallelism}).withDefaults()
	full.Completions, full.Parallelism = batch.Completions, batch.Parallelism
	full.Zone = cmp.Or(full.Zone, "UTC")
	full.Overlap = cmp.Or(full.Overlap, Forbid)
	full.Missed = cmp.Or(full.Missed, RunOnce)
	full.Keep = cmp.Or(full.Keep, DefaultKeep)
	return &full
}

// check checks what can be checked of a cron job without a calendar. The job must have its defaults.
func (c *Cron) check(found *Problems) {
	if c.Schedule == "" {
		found.say("cron.schedule", "it is missing; write one such as \"30 2 * * *\": each day at 02:30")
	}
	for _, text := range []struct{ field, is string }{{"cron.schedule", c.Schedule}, {"cron.zone", c.Zone}} {
		if len(text.is) > ScheduleBytesMax {
			found.say(text.field, "it has %d bytes; at most %d are allowed", len(text.is), ScheduleBytesMax)
		}
	}
}

// CheckSchedule returns what is wrong with the schedule and the time zone of a cron job, as [Problems], or nil.
func (j Job) CheckSchedule(calendar Calendar, now time.Time) error {
	if j.Type != CronType {
		return nil
	}
	c := j.Cron.withDefaults()
	if calendar == nil {
		return Problems{{"type", "this job manager has no calendar (manager.Config), so it runs no job of type cron"}}
	}
	if next, err := calendar(c.Schedule, "UTC", now); err != nil {
		return Problems{{"cron.schedule", err.Error()}}
	} else if next.IsZero() {
		return Problems{{"cron.schedule", "there is no such day; it would never be due"}}
	}
	if _, err := calendar(c.Schedule, c.Zone, now); err != nil {
		return Problems{{"cron.zone", err.Error()}}
	}
	return nil
}
