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
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
	"github.com/tenderhq/tender/internal/protocol"
)

// manager is one process of a job manager in one turn: the real keeper of its jobs, in a shell without goroutines. What it
// does not write to its framework's store is gone when it ends.
type manager struct {
	*keeper.Keeper
	office *office
	s      *scheduler
	life   int    // of the scheduler
	turn   uint64 // of the scheduler

	waker // of the keeper
}

// storeLane is one of a process's numbered series of writes (R17).
type storeLane struct {
	number uint32
	writes uint64
	taken  bool
}

// beginManager is Subscribed of a manager: it loads the jobs of the store, unless nobody else can have kept them meanwhile.
func (o *office) beginManager(s *scheduler) {
	p := o.managers[s]
	if p == nil || p.life != s.life || p.turn != s.takeovers {
		p = &manager{office: o, s: s, life: s.life, turn: s.takeovers}
		p.Keeper = keeper.New(keeper.Config{JobsMax: 1000, HistoryMost: 1000, HistoryAge: 7 * 24 * time.Hour, Calendar: everyFew, Log: p, Changed: p.noteChange}, p.readClock())
		o.managers[s] = p
		s.stateDemand(api.Demand{Role: s.info.Roles[0]})
		p.loadJobs()
		o.countEvent("Loaded", none, none)
	}
	p.runWork(func(time.Time) { p.Begin(p) })
}

// isOver reports whether the process has ended, or another manager may have kept the jobs since.
func (p *manager) isOver() bool {
	return p.office.managers[p.s] != p || p.life != p.s.life || p.turn != p.s.takeovers || !p.s.up
}

func (p *manager) readClock() time.Time { return p.s.clock.read(p.s.world) }

// loadJobs reads the jobs. A read is answered by a leader whom a majority has confirmed, so it finds what is committed.
func (p *manager) loadJobs() {
	w := p.s.world
	records := map[string]map[string][]byte{}
	store := w.quorum.state.Frameworks[p.s.info.ID].Store
	for key, entry := range store { // order: irrelevant because a map is filled
		if !strings.HasPrefix(key, keeper.Prefix) {
			continue
		}
		name, record := keeper.SplitKey(key)
		if records[name] == nil {
			records[name] = map[string][]byte{}
		}
		records[name][record] = entry.Value
	}
	known := map[api.TaskID]bool{}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		m, left, err := jobcore.Load(p.readClock(), records[name])
		if err != nil {
			w.breakStory("job %s can't be read from its store: %v", name, err)
			return
		}
		p.Load(name, m, left, p.readClock())
		if m != nil {
			for _, task := range m.Unheard() {
				known[task] = true
			}
		}
	}
	w.tellStory(p.s.name, "has the jobs %v", p.Names())
	p.office.forgetUnknown(known)
}

// runWork does something with the jobs, and what follows from it.
func (p *manager) runWork(work func(now time.Time)) {
	if p.isOver() {
		return
	}
	now := p.readClock()
	p.Do(now, work)
	p.office.todo = 0
	for _, name := range p.Names() {
		asks, _ := p.Waits(name)
		for _, ask := range asks {
			p.office.todo += ask.Count
		}
	}
	p.writeBatch()
	p.armWaker(now)
}

// everyFew is a calendar in which a schedule is the time between two runs.
func everyFew(schedule, _ string, after time.Time) (time.Time, error) {
	every, err := time.ParseDuration(schedule)
	return after.Truncate(every).Add(every), err
}

// noteChange notes what a job was told, for the coverage and the auditor.
func (p *manager) noteChange(name string, by keeper.Step) {
	if by.Told == nil {
		return
	}
	m := p.Job(name)
	p.office.countEvent(typeName(by.Told), string(by.Before), string(m.Job.Type))
	if p.s.world.story != nil {
		p.s.world.tellStory(p.s.name, "job %s: %T leads to %v", name, by.Told, by.Effects)
	}
	for _, effect := range by.Effects {
		if _, is := effect.(jobcore.Ended); is {
			p.office.checkEnded(m)
		}
	}
}

// armWaker has the keeper called in time.
func (p *manager) armWaker(now time.Time) {
	soon := func(pause time.Duration, do func()) { p.s.planLater(max(pause, time.Millisecond), do) }
	p.wakeAt(p.Next(now), &p.s.clock, p.s.world, soon, func() { p.runWork(p.Ring) })
}

// answerOffers answers offers as the keeper wants.
func (p *manager) answerOffers(answers []api.Answer) {
	for _, answer := range answers {
		if answer.Keep {
			continue
		}
		for _, operation := range answer.Operations {
			for i := range operation.Tasks {
				p.office.checkLaunch(p, &operation.Tasks[i])
			}
		}
		delete(p.s.offers, answer.Offers[0])
		p.s.stepCore(sdk.Answered{Answers: []api.Answer{answer}})
	}
}

// hearStatus handles a status.
func (p *manager) hearStatus(status api.Status) (outcome sdk.Outcome) {
	outcome = sdk.Handled
	p.runWork(func(now time.Time) {
		if p.Hear(status, now) {
			outcome = sdk.Later
		}
	})
	return outcome
}

// What a keeper asks of the masters ([keeper.Masters]).

func (p *manager) Roles() []api.Role { return p.s.info.Roles }

func (p *manager) Demand(demand api.Demand) error { p.s.stateDemand(demand); return nil }

func (p *manager) Answer(answers ...api.Answer) error { p.answerOffers(answers); return nil }

func (p *manager) Kill(task api.TaskID) error { return p.tellSDK(sdk.KillAsked{Task: task}) }

func (p *manager) Acknowledge(status api.Status) error {
	return p.tellSDK(sdk.StatusAcknowledged{Status: status})
}

func (p *manager) TellJobDemand(wanted map[string]int64) error {
	return p.tellSDK(sdk.CallAsked{Call: protocol.JobDemand{Wanted: wanted}})
}

func (p *manager) TellJob(event api.JobEvent) error {
	return p.tellSDK(sdk.CallAsked{Call: protocol.JobEvent{Event: event}})
}

func (p *manager) Reconcile(tasks ...api.TaskID) error { p.s.askStates(tasks...); return nil }

// tellSDK passes a wish to the SDK, unless the manager is over.
func (p *manager) tellSDK(wish sdk.Happening) error {
	if p.isOver() {
		return errOver
	}
	p.s.stepCore(wish)
	return nil
}

// Info takes a line of the keeper's log, as do the methods below.
func (p *manager) Info(message string, pairs ...any) {
	p.s.world.tellStory(p.s.name, "%s %s", message, fmt.Sprint(pairs...))
}

func (p *manager) Warn(message string, pairs ...any) { p.Info(message, pairs...) }

// Error breaks the story: nothing that a keeper calls an error may happen to it here.
func (p *manager) Error(message string, pairs ...any) {
	p.s.world.breakStory("%s: %s %s", p.s.name, message, fmt.Sprint(pairs...))
}
