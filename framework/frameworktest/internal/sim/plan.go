package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/master/core"
)

// acts is everything that can go wrong. Their order is part of what a seed means.
var acts = []chaos.Act[*World]{
	{Do: "break/agent", Weight: 8, Begin: onMachine((*machine).cut, nil)}, // its stream
	{Do: chaos.CutAgent, Weight: 5, Begin: onMachine((*machine).isolate, (*machine).rejoin)},
	{Do: chaos.KillAgent, Weight: 6, Begin: onMachine((*machine).kill, (*machine).start)},
	{Do: chaos.RebootAgent, Weight: 3, Begin: onMachine((*machine).reboot, (*machine).start)},
	{Do: "blink/agent", Weight: 1, Begin: onMachine(func(m *machine) { m.reboot(); m.start() }, nil)}, // rebooted at once
	{Do: chaos.FullAgent, Weight: 2, Begin: onMachine(func(m *machine) { m.fill(true) }, func(m *machine) { m.fill(false) })},
	{Do: chaos.KillExecutor, Weight: 6, Begin: onMachine((*machine).killExecutor, nil)},
	{Do: "break/executor", Weight: 3, Begin: onMachine((*machine).cutExecutor, nil)},
	{Do: chaos.KillLeader, Weight: 4, Begin: onQuorum((*quorum).crash, func(q *quorum) { q.world.electIfNone() })},
	{Do: "depose/leader", Weight: 4, Begin: onQuorum((*quorum).elect, nil)},
	{Do: "lose/majority", Weight: 3, Begin: onQuorum((*quorum).stop, (*quorum).start)},
	{Do: chaos.Restore, Weight: 1, Begin: onQuorum((*quorum).restore, nil)},
	{Do: "join/master", Weight: 1, Begin: onQuorum((*quorum).join, (*quorum).leave)},
	{Do: "leave/master", Weight: 1, Begin: onQuorum((*quorum).leave, (*quorum).join)},
	{Do: "save/masters", Weight: 1, Begin: onQuorum((*quorum).save, nil)}, // a snapshot
	{Do: "break/scheduler", Weight: 4, Begin: onScheduler((*scheduler).cut, nil)},
	{Do: chaos.CutScheduler, Weight: 3, Begin: onScheduler((*scheduler).isolate, (*scheduler).rejoin)},
	{Do: chaos.KillScheduler, Weight: 4, Begin: onScheduler((*scheduler).kill, (*scheduler).start)},
	{Do: "kill/task", Weight: 5, Begin: onScheduler(func(s *scheduler) { s.work.kill(s) }, nil)},
	{Do: "drain/agent", Weight: 3, Begin: onMachine(
		func(m *machine) { m.mark(core.MarkAgent{Set: api.MarkDraining}) },
		func(m *machine) { m.mark(core.MarkAgent{Clear: api.MarkDraining | api.MarkDrained}) })},
	{Do: "mark/agent", Weight: 1, Begin: onMachine(func(m *machine) { m.mark(core.MarkAgent{Set: api.MarkGone, Force: true}) }, nil)}, // gone, and it hears of it
	{Do: chaos.GoneAgent, Weight: 2, Begin: onMachine((*machine).goneWhileAway, (*machine).rejoin)},
	{Do: "remove/agent", Weight: 1, Begin: onMachine(func(m *machine) { m.mark(core.MarkAgent{Remove: true, Force: true}) }, nil)},
	{Do: "remove/framework", Weight: 1, Begin: onScheduler((*scheduler).remove, nil)},
	{Do: "stop/leader", Weight: 2, Begin: func(w *World, f chaos.Fault) (func() error, error) { w.stall(f.For); return nil, nil }}, // its loop
	{Do: "clock/agent", Weight: 2, Begin: onMachine(func(m *machine) { m.world.set(&m.clock) }, nil)},                              // while it runs
	{Do: "clock/down", Weight: 2, Begin: onMachine(func(m *machine) { m.kill(); m.world.set(&m.clock) }, (*machine).start)},
	{Do: "clock/leader", Weight: 2, Begin: onQuorum((*quorum).setClock, nil)},
	{Do: "end/task", Weight: 9, Begin: onScheduler((*scheduler).killByOperator, nil)},
	{Do: "shutdown/executor", Weight: 3, Begin: onScheduler((*scheduler).shutDownExecutor, nil)},
	{Do: "waver/agent", Weight: 2, Begin: onMachine((*machine).waver, nil)},
	{Do: "ask/agent", Weight: 2, Begin: onMachine((*machine).politely, (*machine).reactivate)},
	{Do: "kill/gone", Weight: 1, Begin: onMachine((*machine).givenUp, nil)},
	{Do: "plan/agent", Weight: 6, Begin: onMachine((*machine).plan, (*machine).cancel)},
	{Do: "reserve/agent", Weight: 5, Begin: onMachine((*machine).reserve, nil)},
	{Do: "end/away", Weight: 2, Begin: onMachine((*machine).endAway, (*machine).rejoin)},
	{Do: "shrink/agent", Weight: 2, Begin: onMachine((*machine).shrink, (*machine).grow)},
	{Do: "lie/agent", Weight: 1, Begin: onMachine((*machine).lie, (*machine).honest)},
	{Do: "slow/quorum", Weight: 12, Begin: onQuorum(func(q *quorum) { q.slow = true }, func(q *quorum) { q.slow = false })},
	{Do: "kill/start", Weight: 6, Begin: onMachine((*machine).killAtStart, nil)},
	{Do: "leave/framework", Weight: 2, Begin: onScheduler((*scheduler).leave, nil)},
	{Do: "write/store", Weight: 12, Begin: onScheduler((*scheduler).write, nil)},
	{Do: "hush/scheduler", Weight: 2, Begin: onScheduler((*scheduler).hush, (*scheduler).listen)},
	{Do: "change/framework", Weight: 3, Begin: onScheduler(
		func(s *scheduler) { s.wish(`attributes.?rack.orValue("") != "r2"`) }, func(s *scheduler) { s.wish("") })},
	{Do: "talk/executor", Weight: 1, Begin: onScheduler((*scheduler).talk, nil)},
	{Do: "hide/secret", Weight: 2, Begin: onScheduler((*scheduler).hide, (*scheduler).setSecret)},
	{Do: "crowd/agent", Weight: 3, Begin: onMachine((*machine).crowd, (*machine).clear)},
	{Do: "rank/role", Weight: 4, Begin: onScheduler((*scheduler).rank, (*scheduler).unrank)},
	{Do: "limit/role", Weight: 1, Begin: onScheduler(
		func(s *scheduler) { s.limit(api.Scalars(1, 512)) }, func(s *scheduler) { s.limit(api.Resources{}) })},
}

func onQuorum(begin, end func(*quorum)) chaos.Begin[*World] {
	return chaos.On(func(w *World, _ chaos.Fault) *quorum { return w.quorum }, begin, end)
}

func onMachine(begin, end func(*machine)) chaos.Begin[*World] {
	return chaos.On(func(w *World, f chaos.Fault) *machine { return w.machines[f.Of(len(w.machines))] }, begin, end)
}

func onScheduler(begin, end func(*scheduler)) chaos.Begin[*World] {
	return chaos.On(func(w *World, f chaos.Fault) *scheduler { return w.schedulers[f.Of(len(w.schedulers))] }, begin, end)
}

// NewPlan draws the faults of a seed, and for how long there are faults.
func NewPlan(seed uint64) chaos.Plan {
	return chaos.Draw(seed, time.Duration(rand.New(rand.NewPCG(seed, 2)).Int64N(int64(80*time.Second))), acts)
}

// Shrink leaves out faults as long as the plan still breaks a promise.
func Shrink(plan chaos.Plan) chaos.Plan {
	return plan.Shrink(func(p chaos.Plan) bool { return Run(p, nil).Err != nil })
}

// Outcome is the result of a plan.
type Outcome struct {
	Err      error // the first promise that did not hold
	Steps    int
	Tasks    int
	Coverage Coverage
}

// Run runs the story of a plan: first the faults, then a calm time in which everything has to settle. It writes the
// story into story, unless that is nil.
func Run(p chaos.Plan, story *strings.Builder) Outcome {
	w := newWorld(p.Seed)
	w.story = story
	w.populate(p.Seed)
	if err := chaos.Play(p, w, acts); err != nil && w.broken == nil {
		w.breaks("%v", err)
	}
	w.pass(max(time.Second, epoch.Add(21*time.Second).Sub(w.now)))
	w.calm()
	return Outcome{Err: w.broken, Steps: w.steps, Tasks: len(w.truth.order), Coverage: w.coverage}
}

// Pass lets time go by, unless a promise is broken.
func (w *World) Pass(span time.Duration) error { w.pass(span); return w.broken }

// Tell writes a line about a fault into the story.
func (w *World) Tell(what string, f chaos.Fault) { w.say("fault", "%s: %v", what, f) }

// Calm does not wait: here a fault may begin while others last.
func (*World) Calm(chaos.Fault) error { return nil }

// disk is a resource of which volumes can be made.
var disk = api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 1_000_000})

// populate draws a cluster and its work.
func (w *World) populate(seed uint64) {
	r := w.random
	if r.IntN(3) == 0 {
		w.quorum.policy = "priority"
	}
	w.quorum.config.GoneAfter = -1
	if r.IntN(5) == 0 {
		w.quorum.config.GoneAfter = w.between(time.Second, 30*time.Second)
	}
	if r.IntN(2) == 0 {
		w.quorum.config.ReceiptKey = []byte("the key of the cluster")
	}
	if r.IntN(3) == 0 {
		w.quorum.config.StoreBytesMax = 1000
	}
	if hasJobs(seed) {
		w.quorum.keepStores()
	}
	w.quorum.elect()
	for i := range 1 + r.IntN(4) {
		m := w.addMachine(fmt.Sprintf("h%d", i+1), api.Scalars(float64(1+r.IntN(4)), 2048).Plus(disk))
		if r.IntN(4) == 0 {
			m.config.ExecutorIdle = time.Second
		}
		if r.IntN(4) == 0 {
			m.config.StubsMax = 3
		}
		if r.IntN(3) == 0 {
			m.jump()
		}
		w.in(w.between(0, time.Second), m.start)
	}
	if hasJobs(seed) {
		w.open("jobs")
	}
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprintf("f%d", i+1)
		k := newWork(w, name, 1+r.IntN(25))
		k.stated, k.own, k.faulty, k.saves = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(4) == 0
		k.terse = r.IntN(2) == 0
		k.drawHabits()
		s := w.addScheduler(name, k)
		s.info.Revocable = k.habits.thrifty
		w.in(0, s.setSecret)
		if r.IntN(3) == 0 && !k.terse {
			s.info.Roles = append(s.info.Roles, "shared", "role-f1/below")
		}
		if r.IntN(3) == 0 {
			s.info.FailoverTimeout = w.between(2*time.Second, time.Minute)
		}
		if r.IntN(3) == 0 {
			s.info.Standby = true
			second := w.addScheduler(name, k)
			second.info = s.info
			second.name += "b"
			w.in(w.between(0, 5*time.Second), second.start)
		}
		w.in(w.between(0, time.Second), s.start)
	}
}

// calm ends all faults. Then everything has to come to rest, and at the end everything has to be gone.
func (w *World) calm() {
	if w.broken != nil {
		return
	}
	w.say("world", "the calm begins")
	w.kind = true
	w.quorum.slow = false
	w.quorum.start()
	w.electIfNone()
	w.in(time.Second, func() {
		for _, m := range w.machines {
			m.rejoin()
			if m.lies = false; !m.config.Agent.Resources.Equal(m.whole) {
				m.grow()
			}
			m.start()
			m.fill(false)
			m.clear()
			m.cancel()
			m.reactivate()
		}
		for _, s := range w.schedulers {
			s.rejoin()
			s.start()
			s.listen()
			s.wish("")
			s.setSecret()
			s.limit(api.Resources{})
			s.unrank()
		}
	})
	w.rest("to settle", 5*time.Minute, w.truth.settled)
	w.say("world", "all work ends")
	w.truth.short = true
	for _, s := range w.schedulers {
		s.work.resting = true
		s.user.sayDemand(s)
	}
	for _, m := range w.machines {
		for _, p := range m.processes {
			p.finishAll()
		}
	}
	w.rest("to end its work", 5*time.Minute, func() string {
		w.giveUpLost()
		for _, s := range w.schedulers {
			if why := s.user.unrest(); why != "" {
				return why
			}
			if s.up && len(s.work.tasks) > 0 {
				return fmt.Sprintf("%s still has %d tasks", s.name, len(s.work.tasks))
			}
		}
		return w.truth.settled()
	})
	w.say("world", "all frameworks are torn down")
	for _, s := range w.schedulers {
		s.work.torn = true
		s.tearDown()
	}
	w.rest("to be empty", 5*time.Minute, func() string {
		w.removeOrphans()
		return w.truth.empty()
	})
}

// rest waits until nothing is left that has to come to rest.
func (w *World) rest(what string, within time.Duration, unrest func() string) {
	if w.broken != nil {
		return
	}
	var why string
	end := w.now.Add(within)
	for w.broken == nil && w.now.Before(end) {
		w.pass(2 * time.Second)
		if why = unrest(); why == "" {
			return
		}
	}
	w.breaks("the cluster needs more than %v %s: %s", within, what, why)
}
