package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	jobcore "github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/writes"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wallclock"
)

// keeper is one process of a job manager in one turn: the jobs' cores and what is to be written of them, in a shell
// without goroutines. What it does not write to its framework's store is gone when it ends.
type keeper struct {
	office *office
	s      *scheduler
	life   int    // of the scheduler
	turn   uint64 // of the scheduler

	known   bool // the leader has told which tasks run
	jobs    map[string]*jobcore.JobMaster
	claimed map[string]bool // names of jobs of which a submission is under way
	flights map[api.TaskID]*flight
	clock   wallclock.Calendar
	doubted bool // the clock was set, and runs are not planned by it yet
	armed   time.Time
	stated  string // the demand that was stated last
	storing
}

// storing is what a keeper has to write.
type storing struct {
	writes  writes.Writes
	busy    *writes.Batch
	waiting []func(*writes.Batch) // who waits for the batch that grows
	under   []func(*writes.Batch) // who waits for the batch that is being written
}

// flight is an offer that is kept until the assignments of its tasks are in the store.
type flight struct {
	offer api.Offer
	tasks []api.Task
}

// storeLane is one of a process's numbered series of writes (R17).
type storeLane struct {
	number uint32
	writes uint64
	taken  bool
}

// begins is Subscribed of a manager: it loads the jobs of the store, unless nobody else can have kept them meanwhile.
func (o *office) begins(s *scheduler) *keeper {
	p := o.keepers[s]
	if p == nil || p.life != s.life || p.turn != s.takeovers {
		p = &keeper{office: o, s: s, life: s.life, turn: s.takeovers, jobs: map[string]*jobcore.JobMaster{}, claimed: map[string]bool{}, flights: map[api.TaskID]*flight{},
			storing: storing{writes: writes.New()}}
		o.keepers[s] = p
		p.clock = wallclock.Began(p.now())
		p.clock.Distrust(p.now())
		s.demand(api.Demand{Role: s.info.Roles[0]})
		p.load()
		o.count("Loaded", none, none)
	}
	for _, name := range p.names() {
		for _, task := range p.jobs[name].Kills() {
			s.step(sdk.KillAsked{Task: task})
		}
	}
	p.do(func(time.Time) {})
	return p
}

// over reports whether the process has ended, or another manager may have kept the jobs since.
func (p *keeper) over() bool {
	return p.office.keepers[p.s] != p || p.life != p.s.life || p.turn != p.s.takeovers || !p.s.up
}

func (p *keeper) now() time.Time { return p.s.clock.read(p.s.world) }

func (p *keeper) names() []string { return slices.Sorted(maps.Keys(p.jobs)) }

// load reads the jobs. A read is answered by a leader whom a majority has confirmed, so it finds what is committed.
func (p *keeper) load() {
	w := p.s.world
	records := map[string]map[string][]byte{}
	store := w.quorum.state.Frameworks[p.s.info.ID].Store
	for key, entry := range store { // order: irrelevant because a map is filled
		if !strings.HasPrefix(key, writes.Prefix) {
			continue
		}
		name, record := writes.SplitKey(key)
		if records[name] == nil {
			records[name] = map[string][]byte{}
		}
		records[name][record] = entry.Value
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		m, left, err := jobcore.Load(p.now(), records[name])
		if err != nil {
			w.breaks("job %s can't be read from its store: %v", name, err)
			return
		}
		if m != nil {
			p.jobs[name] = m
		}
		for _, record := range left {
			p.writes.MarkDirty(name, record)
		}
	}
	w.say(p.s.name, "has the jobs %v", p.names())
	known := map[api.TaskID]bool{}
	for _, name := range p.names() {
		for _, task := range p.jobs[name].Unheard() {
			known[task] = true
		}
		p.plan(name, p.now(), 0)
	}
	p.office.forget(known)
}

// do does something with the jobs, and what follows from it.
func (p *keeper) do(work func(now time.Time)) {
	if p.over() {
		return
	}
	now := p.now()
	p.lookAtClock(now)
	work(now)
	if p.known {
		p.state()
	}
	p.write()
	p.arm(now)
}

// lookAtClock tells the jobs when somebody has set the clock (R56).
func (p *keeper) lookAtClock(now time.Time) {
	believed := !now.Before(p.clock.Trusted())
	switch by := p.clock.Look(now); {
	case by != 0:
		p.doubted = true
		for _, name := range p.names() {
			p.stepOnce(name, now, jobcore.ClockSet{By: by, Doubt: p.clock.Trusted(), Believed: believed})
		}
	case p.doubted && !now.Before(p.clock.Trusted()):
		p.doubted = false
		for _, name := range p.names() {
			p.plan(name, now, wallclock.Doubt)
		}
	}
}

// plan tells a cron job when its next run is due.
func (p *keeper) plan(name string, now time.Time, doubted time.Duration) {
	m := p.jobs[name]
	for from, is := m.Unplanned(now); is && !p.doubted; from, is = m.Unplanned(now) {
		planned, err := m.PlanRun(everyFew, from, now)
		if err != nil {
			p.s.world.breaks("nobody knows when job %s is due: %v", name, err)
			return
		}
		planned.Doubted = doubted
		p.stepOnce(name, now, planned)
	}
}

// everyFew is a calendar in which a schedule is the time between two runs.
func everyFew(schedule, _ string, after time.Time) (time.Time, error) {
	every, err := time.ParseDuration(schedule)
	return after.Truncate(every).Add(every), err
}

// step passes an event to a job.
func (p *keeper) step(name string, now time.Time, happened jobcore.Event) (effects []jobcore.Effect) {
	effects = p.stepOnce(name, now, happened)
	p.plan(name, now, 0)
	return effects
}

func (p *keeper) stepOnce(name string, now time.Time, happened jobcore.Event) []jobcore.Effect {
	m := p.jobs[name]
	before := m.Phase
	p.office.count(typeName(happened), string(before), string(m.Job.Type))
	effects := m.Step(now, happened)
	if p.s.world.story != nil {
		p.s.world.say(p.s.name, "job %s: %T leads to %v", name, happened, effects)
	}
	if m.Phase != before {
		p.writes.TryAside(name)
	}
	for _, effect := range effects {
		switch effect := effect.(type) {
		case jobcore.Save:
			p.writes.MarkDirty(name, effect.Key)
		case jobcore.Ended:
			p.office.ended(p, name)
		default:
			p.writes.AddEffect(name, effect)
		}
	}
	return effects
}

// arm wakes the jobs in time.
func (p *keeper) arm(now time.Time) {
	next := now.Add(wallclock.Doubt)
	if again := p.writes.TryAt(); !again.IsZero() && again.Before(next) {
		next = again
	}
	for _, m := range p.jobs { // order: irrelevant because the earliest is looked for
		if wake := m.Wake(); !wake.IsZero() && wake.Before(next) {
			next = wake
		}
	}
	if next.Equal(p.armed) {
		return
	}
	p.armed = next
	p.s.later(max(p.s.clock.until(p.s.world, next), time.Millisecond), func() {
		if !p.armed.Equal(next) {
			return
		}
		p.armed = time.Time{}
		p.do(func(now time.Time) {
			p.writes.TryAllAside(now)
			for _, name := range p.names() {
				if wake := p.jobs[name].Wake(); !wake.IsZero() && !wake.After(now) {
					p.step(name, now, jobcore.Woken{})
				}
			}
		})
	})
}

// asks returns what waits for agents, job by job.
func (p *keeper) asks(name string) []jobcore.Ask {
	if p.writes.Aside(name) != nil {
		return nil
	}
	return p.jobs[name].Asks()
}

// state states the demand, if that has changed.
func (p *keeper) state() {
	if p.s.phase != active {
		p.stated = ""
		return
	}
	demand, count := api.Demand{Role: p.s.info.Roles[0]}, 0
	for _, name := range p.names() {
		for _, ask := range p.asks(name) {
			count += ask.Count
		}
	}
	if count > 0 {
		demand.Shapes = []api.Shape{{Resources: taskOfJobs.APITask().Resources, Count: int64(count)}}
	}
	p.office.todo = count
	if text := fmt.Sprint(demand); text != p.stated {
		p.stated = text
		p.s.demand(demand)
	}
}

// place assigns waiting tasks to the offers. An offer is kept until the assignments are in the store.
func (p *keeper) place(offers []api.Offer, now time.Time) {
	for _, offer := range offers {
		one := &flight{offer: offer}
		left := offer.Resources
		fits := func() bool {
			_, rest, room := left.Carve(taskOfJobs.APITask().Resources)
			if room {
				left = rest
			}
			return room
		}
		if p.known && offer.Role == p.s.info.Roles[0] {
			for _, name := range p.names() {
				for _, ask := range p.asks(name) {
					p.placeAsk(name, ask, one, fits, now)
				}
			}
		}
		if len(one.tasks) == 0 {
			p.s.decline(offer, api.Filter{Refuse: 100 * time.Millisecond})
			continue
		}
		for _, task := range one.tasks {
			p.flights[task.ID] = one
		}
	}
}

// placeAsk assigns what fits of an ask. A gang needs room for all its members, here in one offer.
func (p *keeper) placeAsk(name string, ask jobcore.Ask, one *flight, fits func() bool, now time.Time) {
	m := p.jobs[name]
	to := jobcore.Assigned{SubJob: ask.SubJob, Version: ask.Version, Copy: ask.Copy, Agent: one.offer.Agent, Hostname: one.offer.Hostname}
	if ask.Gang {
		members := make([]jobcore.Assigned, 0, ask.Count)
		for range ask.Count {
			if fits() {
				members = append(members, to)
			}
		}
		if len(members) == ask.Count {
			p.step(name, now, jobcore.AssignedGang{SubJob: ask.SubJob, Version: ask.Version, Members: members})
			one.tasks = append(one.tasks, m.GangTasks(ask.SubJob)...)
		}
		return
	}
	for range ask.Count {
		task, is := m.Peek(ask, to.Agent)
		if !is || !m.Takes(ask, to.Agent) || !fits() {
			return
		}
		one.tasks = append(one.tasks, task)
		p.step(name, now, to)
	}
}

// hear handles a status.
func (p *keeper) hear(status api.Status) (outcome sdk.Outcome) {
	outcome = sdk.Handled
	name := jobcore.JobOf(status.Task)
	p.do(func(now time.Time) {
		if p.jobs[name] == nil {
			if !status.State.Settled() {
				p.s.step(sdk.KillAsked{Task: status.Task})
			}
			return
		}
		mark := p.writes.Mark(name)
		effects := p.step(name, now, jobcore.Heard{Status: status})
		if slices.ContainsFunc(effects, func(e jobcore.Effect) bool { _, is := e.(jobcore.Acknowledge); return !is }) {
			outcome = sdk.Later
			return
		}
		p.writes.Reset(name, mark)
	})
	return outcome
}

// settled is Settled of a manager: only now tasks are started, and the leader is asked about the remaining ones.
func (p *keeper) settled() {
	p.do(func(time.Time) {
		p.known, p.stated = true, ""
		var unheard []api.TaskID
		for _, name := range p.names() {
			unheard = append(unheard, p.jobs[name].Unheard()...)
		}
		p.s.ask(unheard...)
	})
}

// perform performs the effects of a batch that is in the store.
func (p *keeper) perform(b *writes.Batch, now time.Time) {
	for _, one := range b.Effects {
		if p.over() {
			return
		}
		if b.Refused(one.Job) != nil {
			continue
		}
		switch effect := one.Effect.(type) {
		case jobcore.Dispatch:
			p.launch(effect.Task)
		case jobcore.Kill:
			p.s.step(sdk.KillAsked{Task: effect.Task})
		case jobcore.Acknowledge:
			p.s.step(sdk.StatusAcknowledged{Status: effect.Status})
		case jobcore.Tell:
			p.s.step(sdk.CallAsked{Call: protocol.JobEvent{Event: effect.Event}})
		case jobcore.Forgotten:
			if m := p.jobs[one.Job]; m != nil && m.Gone {
				delete(p.jobs, one.Job)
				p.writes.TrySoon(now)
			}
		}
	}
}

// launch launches all tasks of the offer to which this one belongs.
func (p *keeper) launch(task api.TaskID) {
	one := p.flights[task]
	if one == nil {
		return
	}
	for i := range one.tasks {
		delete(p.flights, one.tasks[i].ID)
		p.office.launched(p, &one.tasks[i])
	}
	p.stated = "" // the masters count the launched tasks down
	delete(p.s.offers, one.offer.ID)
	p.s.step(sdk.Answered{Answers: []api.Answer{api.Launch(one.offer, one.tasks...)}})
}

// setAside sets the jobs aside that the store has refused. None of their tasks of the batch is launched.
func (p *keeper) setAside(b *writes.Batch, now time.Time) {
	names, dropped := p.writes.SetAside(b, now)
	for _, name := range names {
		p.office.count("SetAside", none, none)
		p.s.world.say(p.s.name, "job %s is set aside: %v", name, b.Refused(name))
		for _, task := range dropped[name] {
			p.leave(task)
			if p.jobs[name] != nil {
				p.step(name, now, jobcore.Undispatched{Task: task, Why: "the store refuses to take its job"})
			}
		}
	}
}

// leave takes a task out of its offer, which is declined if nothing else is to run there.
func (p *keeper) leave(task api.TaskID) {
	one := p.flights[task]
	if one == nil {
		return
	}
	delete(p.flights, task)
	one.tasks = slices.DeleteFunc(one.tasks, func(other api.Task) bool { return other.ID == task })
	if len(one.tasks) == 0 {
		p.s.decline(one.offer, api.Filter{})
	}
}
