// Package keeper is what a job manager does with its jobs, and in which order: what they are told, what is demanded, which
// task goes into which offer, what is forgotten, and what is done once a batch is in the store. The manager and the
// simulation of whole clusters both stand on it, so that what the one forgets the other forgets too.
//
// A [Keeper] has no clock, goroutine, lock or I/O of its own. Whoever has it reads the clock, writes what
// [Keeper.TakeBatch] returns, and calls [Keeper.Ring] when [Keeper.Next] says so.
package keeper

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/wallclock"
)

// Masters is what a keeper asks of the masters. An error says that the session is over for good; nothing more is asked
// then.
type Masters interface {
	Roles() []api.Role // in which the framework is offered resources
	Demand(demand api.Demand) error
	Answer(answers ...api.Answer) error
	Kill(task api.TaskID) error
	Acknowledge(status api.Status) error
	TellJob(event api.JobEvent) error
	TellJobDemand(wanted map[string]int64) error
	Reconcile(tasks ...api.TaskID) error
}

// Log takes the lines of the log, with pairs of words and values.
type Log interface {
	Info(message string, pairs ...any)
	Warn(message string, pairs ...any)
	Error(message string, pairs ...any)
}

// Config is what a keeper goes by.
type Config struct {
	JobsMax     int           // jobs, including those that have ended
	HistoryMost int           // ended jobs that are kept, by number
	HistoryAge  time.Duration // and by age
	Calendar    jobs.Calendar // reads schedules
	Judge       jobs.Judge    // reads constraints; nil: no job has any
	Log         Log
	Changed     func(name string, by Step) // told that what people see of a job may have changed
}

// Step is what a job was told, and what followed. Zero: its own state has not changed.
type Step struct {
	Before  jobs.Phase
	Told    core.Event
	Effects []core.Effect
}

// Keeper keeps the jobs of one manager. Only one goroutine at a time may use it.
type Keeper struct {
	config  Config
	masters Masters // nil: there is no session, or it is over
	settled bool    // the leader has told which of the jobs' tasks run
	book    book
	clock   managerClock
	wants   wants
	flights flights
	gather  gather
	judges  judges

	writes  // what of the jobs is to be written
	waiters // who wait for that
}

// New makes a keeper without jobs.
func New(config Config, now time.Time) *Keeper {
	k := &Keeper{config: config, judges: judges{judge: config.Judge, log: config.Log}, clock: managerClock{calendar: wallclock.Began(now)},
		book: book{claimed: make(map[string]bool)}}
	k.Forget()
	return k
}

// Forget forgets all jobs, because another manager may have kept them meanwhile. Names that are claimed stay so.
func (k *Keeper) Forget() {
	*k = Keeper{config: k.config, clock: k.clock, judges: k.judges, book: book{jobs: make(map[string]*entry), claimed: k.book.claimed}, wants: newWants(), flights: make(flights), gather: newGather(),
		writes: writes{keys: make(map[string]record), aside: make(map[string]*aside)}}
}

// Begin says that the session with these masters has begun, in which the offers of the one before are gone. What has to
// end is killed again.
func (k *Keeper) Begin(masters Masters) {
	k.masters = masters
	k.wants.untold, k.wants.tellAt = true, time.Time{}
	k.gather.end() // the offers of the session before are gone
	for _, name := range k.book.names {
		for _, task := range k.book.jobs[name].master.Kills() {
			k.askMasters(func() error { return masters.Kill(task) })
		}
	}
}

// End says that the session is over for good, for this reason. Who waits for the next batch is told.
func (k *Keeper) End(why error) {
	k.masters = nil
	tellAll(&k.grows, func(waiter) (refused, over error) { return nil, why })
}

// Over reports whether the session is over for good.
func (k *Keeper) Over() bool { return k.masters == nil }

// askMasters asks something of the masters, unless the session is over.
func (k *Keeper) askMasters(request func() error) {
	if k.masters != nil && request() != nil {
		k.masters = nil
	}
}

// Do does something with the jobs, and what follows from it.
func (k *Keeper) Do(now time.Time, work func(now time.Time)) {
	k.lookAtClock(now)
	work(now)
	k.forgetOld(now)
	if k.masters == nil {
		return
	}
	k.endGather(now)
	if k.settled {
		k.stateDemands()
		k.tellJobDemand(now)
	}
}

// stateDemands tells the masters what waits, role by role, where they may know it otherwise.
func (k *Keeper) stateDemands() {
	for _, role := range k.wants.Unstated(k.masters.Roles()) {
		err := k.masters.Demand(api.Demand{Role: role, Shapes: k.wants.shapes(role)})
		if api.Is(err, api.Unavailable) { // Run has ended
			k.masters = nil
			return
		} else if err != nil {
			k.config.Log.Error("what waits can't be demanded", "role", role, "error", err)
		}
	}
}

// Settle says that the leader has told the states of all tasks that it knows. Only now are tasks started, and it is
// asked about the remaining ones.
func (k *Keeper) Settle() {
	if !k.settled {
		k.settled = true
		k.wants.RestateAll()
	}
	var unheard []api.TaskID
	for _, name := range k.book.names {
		unheard = append(unheard, k.book.jobs[name].master.Unheard()...)
	}
	for page := range slices.Chunk(unheard, api.ItemsPerCallMax) {
		k.askMasters(func() error { return k.masters.Reconcile(page...) })
	}
}

// Load takes a job that was read from the store, and which of its records are no longer needed. The clock is not trusted
// for a while, because another manager's may differ.
func (k *Keeper) Load(name string, m *core.JobMaster, left []string, now time.Time) {
	k.clock.calendar.Distrust(now)
	for _, key := range left {
		k.markDirty(name, key)
	}
	if m == nil {
		return
	}
	e := k.book.add(name, m)
	if m.Phase.Ended() {
		k.book.endings.add(ending{name, m.Run, k.endedAt(m, now)})
	}
	k.stepJob(e, now, core.Woken{}) // what is stored may end the job or a part of it, and nobody else would tell
}

// Add begins a new job, which is in the store.
func (k *Keeper) Add(m *core.JobMaster, now time.Time) {
	k.stepJob(k.book.add(m.Job.Name, m), now, core.Begun{})
}

// Tell passes an event to a job. If the job is set aside, it is tried again.
func (k *Keeper) Tell(name string, now time.Time, happened core.Event) {
	k.TryAside(name)
	k.stepJob(k.book.jobs[name], now, happened)
}

// Hear passes a status to its job. later: it is acknowledged once what it has changed is in the store.
func (k *Keeper) Hear(status api.Status, now time.Time) (later bool) {
	e := k.book.jobs[core.JobOf(status.Task)]
	if e == nil { // its job is gone
		if !status.State.Settled() {
			k.askMasters(func() error { return k.masters.Kill(status.Task) })
		}
		return false
	}
	before := len(*k.effectsOf(e.name))
	effects := k.stepJob(e, now, core.Heard{Status: status})
	if slices.ContainsFunc(effects, func(effect core.Effect) bool { _, is := effect.(core.Acknowledge); return !is }) {
		return true
	}
	waiting := k.effectsOf(e.name)
	*waiting = (*waiting)[:before] // nothing has to be written before
	return false
}

// stepJob passes an event to a job, queues the effects, and plans a cron job's next run.
func (k *Keeper) stepJob(e *entry, now time.Time, happened core.Event) []core.Effect {
	return append(k.stepOnce(e, now, happened), k.planRuns(e, now, 0)...)
}

func (k *Keeper) stepOnce(e *entry, now time.Time, happened core.Event) []core.Effect {
	before := e.master.Phase
	effects := e.master.Step(now, happened)
	if e.master.Phase != before { // what ends a job needs less room than what goes on
		k.TryAside(e.name)
	}
	for _, its := range effects {
		switch its := its.(type) {
		case core.Save:
			k.markDirty(e.name, its.Key)
		case core.Ended:
			k.book.endings.add(ending{e.name, e.master.Run, now})
		default:
			waiting := k.effectsOf(e.name)
			*waiting = append(*waiting, effect{e.name, its})
		}
	}
	k.noteChange(e, Step{before, happened, effects})
	return effects
}

// noteChange updates what is known of the job outside of its JobMaster.
func (k *Keeper) noteChange(e *entry, by Step) {
	k.wants.update(e.name, e.master, k.Aside(e.name) == nil)
	k.book.noteWake(e)
	k.config.Changed(e.name, by)
}

// Next returns when [Keeper.Ring] is to be called: a job has to be woken, tried again or forgotten, a gang's offers have
// been held for long enough, or the clock has to be looked at. Zero: by time alone nothing happens.
func (k *Keeper) Next(now time.Time) (next time.Time) {
	times := []time.Time{k.book.wakes.Next(), k.gather.until, k.again, k.nextTelling()}
	if ended := k.book.endings; len(ended) > 0 {
		times = append(times, ended[0].at.Add(k.config.HistoryAge+1))
	}
	if len(k.book.jobs) > 0 {
		times = append(times, now.Add(wallclock.Doubt))
	}
	for _, at := range times {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Ring wakes the jobs that are due, and tries those again that were set aside.
func (k *Keeper) Ring(now time.Time) {
	k.tryAllAside(now)
	for e := k.book.nextDue(now); e != nil; e = k.book.nextDue(now) {
		k.stepJob(e, now, core.Woken{})
	}
}

// forgetOld deletes the ended jobs that are beyond the bounds of the history.
func (k *Keeper) forgetOld(now time.Time) {
	for list := k.book.endings; len(list) > k.config.HistoryMost || len(list) > 0 && now.Sub(list[0].at) > k.config.HistoryAge; list = k.book.endings {
		k.book.endings = list[1:]
		if e := k.book.ended(list[0]); e != nil && !k.book.claimed[e.name] {
			k.stepJob(e, now, core.Asked{Delete: true, Why: "its time in the history is over"})
		}
	}
}

// Unwritten says that the session is over for good, as a batch can't be written, and why.
func (k *Keeper) Unwritten(why error) {
	k.masters, k.busy = nil, false
	tellAll(&k.under, func(waiter) (refused, over error) { return nil, why })
}

// Written goes on behind a batch: what the store has refused is set aside, and what has waited for the rest is done.
func (k *Keeper) Written(b *Batch, now time.Time) {
	k.setAside(b, now)
	for _, done := range b.effects {
		if b.refused[done.job] == nil {
			k.performEffect(done, now)
		}
	}
	for _, name := range k.readmit(b) {
		k.config.Log.Info("a job that was set aside is stored again", "job", name)
		if e := k.book.jobs[name]; e != nil {
			k.noteChange(e, Step{})
		}
	}
	k.busy = false
	tellAll(&k.under, func(w waiter) (refused, over error) { return b.refused[w.job], nil })
}

// setAside sets the jobs aside that were refused. Of their tasks that were to be launched none is.
func (k *Keeper) setAside(b *Batch, now time.Time) {
	dropped := make(map[string][]api.TaskID)
	for name := range b.refused { // order: irrelevant because each is by itself
		dropped[name] = k.writes.setAside(name, b, now)
	}
	for _, name := range slices.Sorted(maps.Keys(dropped)) {
		k.config.Log.Warn("a job is set aside", "job", name, "error", b.refused[name])
		e := k.book.jobs[name]
		for _, task := range dropped[name] {
			k.giveBack(k.flights.leave(task), refuseShort)
			if e != nil {
				k.stepJob(e, now, core.Undispatched{Task: task, Why: "the store refuses to take its job"})
			}
		}
		if e != nil {
			k.noteChange(e, Step{})
		}
	}
}

// performEffect does what has waited for a batch.
func (k *Keeper) performEffect(done effect, now time.Time) {
	switch effect := done.Effect.(type) {
	case core.Dispatch:
		k.launchOffer(effect.Task)
	case core.Kill:
		k.askMasters(func() error { return k.masters.Kill(effect.Task) })
	case core.Acknowledge:
		k.askMasters(func() error { return k.masters.Acknowledge(effect.Status) })
	case core.Tell:
		k.askMasters(func() error { _ = k.masters.TellJob(effect.Event); return nil }) // people read it, and nothing depends on it
	case core.Forgotten:
		if m := k.Job(done.job); k.masters != nil && m != nil && m.Gone {
			k.book.remove(done.job)
			k.config.Changed(done.job, Step{})
			k.trySoon(now)
		}
	}
}
