package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
)

// Plan is a seed with the faults that it draws. The same plan tells the same story.
type Plan struct {
	Seed   uint64
	Faults []Fault
}

// Fault is one thing that goes wrong, and after a while right again where it can be mended.
type Fault struct {
	At   time.Duration
	Kind FaultKind
	Whom int
	For  time.Duration
}

// FaultKind is what goes wrong.
type FaultKind string

// fault is what a kind does: it begins, and it may end.
type fault struct {
	kind   FaultKind
	weight int
	begin  func(w *World, f Fault) (end func())
}

// faults are all kinds. Their order is part of what a seed means.
var faults = []fault{
	{"break the agent's stream", 6, onMachine(func(m *machine) func() { m.cut(); return nil })},
	{"isolate the agent", 5, onMachine(func(m *machine) func() { m.isolate(); return m.rejoin })},
	{"kill the agent", 6, onMachine(func(m *machine) func() { m.kill(); return m.start })},
	{"reboot the machine", 3, onMachine(func(m *machine) func() { m.reboot(); return m.start })},
	{"reboot the machine at once", 1, onMachine(func(m *machine) func() { m.reboot(); m.start(); return nil })},
	{"fill the disk", 2, onMachine(func(m *machine) func() { m.fill(true); return func() { m.fill(false) } })},
	{"kill an executor", 4, onMachine(func(m *machine) func() { m.killExecutor(); return nil })},
	{"break an executor's stream", 3, onMachine(func(m *machine) func() { m.cutExecutor(); return nil })},
	{"kill the leader", 4, func(w *World, _ Fault) func() { w.quorum.crash(); return w.electIfNone }},
	{"depose the leader", 4, func(w *World, _ Fault) func() { w.quorum.elect(); return nil }},
	{"lose the majority", 3, func(w *World, _ Fault) func() { w.quorum.stop(); return w.quorum.start }},
	{"restore a snapshot", 1, func(w *World, _ Fault) func() { w.quorum.restore(); return nil }},
	{"save a snapshot", 1, func(w *World, _ Fault) func() { w.quorum.save(); return nil }},
	{"break the scheduler's stream", 4, onScheduler(func(s *scheduler) func() { s.cut(); return nil })},
	{"isolate the scheduler", 3, onScheduler(func(s *scheduler) func() { s.isolate(); return s.rejoin })},
	{"kill the scheduler", 4, onScheduler(func(s *scheduler) func() { s.kill(); return s.start })},
	{"kill a task", 5, onScheduler(func(s *scheduler) func() { s.work.kill(s); return nil })},
	{"drain the agent", 3, onMachine(func(m *machine) func() {
		m.mark(core.MarkAgent{Set: api.MarkDraining})
		return func() { m.mark(core.MarkAgent{Clear: api.MarkDraining | api.MarkDrained}) }
	})},
	{"mark the agent gone", 1, onMachine(func(m *machine) func() { m.mark(core.MarkAgent{Set: api.MarkGone, Force: true}); return nil })},
	{"mark the agent gone while it is away", 2, onMachine((*machine).goneWhileAway)},
	{"remove the agent", 1, onMachine(func(m *machine) func() { m.mark(core.MarkAgent{Remove: true, Force: true}); return nil })},
	{"remove the framework", 1, onScheduler(func(s *scheduler) func() { s.remove(); return nil })},
	{"stop the leader's loop", 2, func(w *World, f Fault) func() { w.stall(f.For); return nil }},
	{"move the clock", 1, onMachine(func(m *machine) func() { m.kill(); m.clock += 20 * 24 * time.Hour; return m.start })},
	{"move the next leader's clock", 1, func(w *World, _ Fault) func() { w.quorum.clock += 20 * 24 * time.Hour; w.quorum.elect(); return nil }},
	{"an operator kills a task", 3, onScheduler(func(s *scheduler) func() { s.killByOperator(); return nil })},
	{"shut an executor down", 3, onScheduler(func(s *scheduler) func() { s.shutDownExecutor(); return nil })},
	{"let a role have little", 1, onScheduler(func(s *scheduler) func() {
		s.limit(api.Scalars(1, 512))
		return func() { s.limit(api.Resources{}) }
	})},
}

func onMachine(do func(*machine) func()) func(*World, Fault) func() {
	return func(w *World, f Fault) func() { return do(w.machines[f.Whom%len(w.machines)]) }
}

func onScheduler(do func(*scheduler) func()) func(*World, Fault) func() {
	return func(w *World, f Fault) func() { return do(w.schedulers[f.Whom%len(w.schedulers)]) }
}

// NewPlan draws the faults of a seed.
func NewPlan(seed uint64) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := Plan{Seed: seed}
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	mean := int64(100*time.Millisecond) + random.Int64N(int64(5*time.Second))
	at := time.Duration(random.Int64N(int64(5 * time.Second)))
	for range random.IntN(30) {
		pick := random.IntN(total)
		one := Fault{At: at, Whom: random.IntN(12), For: outage(random)}
		for _, f := range faults {
			if pick -= f.weight; pick < 0 {
				one.Kind = f.kind
				break
			}
		}
		plan.Faults = append(plan.Faults, one)
		at += time.Duration(random.Int64N(2 * mean))
	}
	return plan
}

// outage is mostly short, sometimes longer than a session timeout, rarely longer than a TOMBSTONE.
func outage(random *rand.Rand) time.Duration {
	most := 2 * time.Second
	switch n := random.IntN(10); {
	case n == 9:
		most = 60 * time.Second
	case n >= 6:
		most = 12 * time.Second
	}
	return time.Duration(random.Int64N(int64(most)))
}

// String lists the faults with their numbers, so that some of them can be chosen.
func (p Plan) String() string {
	var text strings.Builder
	for i, f := range p.Faults {
		fmt.Fprintf(&text, "  %2d  %9.3fs  %s (%d) for %.3fs\n", i, f.At.Seconds(), f.Kind, f.Whom, f.For.Seconds())
	}
	return text.String()
}

// without is the plan with fewer faults.
func (p Plan) without(from, count int) Plan {
	fewer := Plan{Seed: p.Seed}
	fewer.Faults = append(fewer.Faults, p.Faults[:from]...)
	fewer.Faults = append(fewer.Faults, p.Faults[min(from+count, len(p.Faults)):]...)
	return fewer
}

// Shrink leaves out faults as long as the plan still breaks a promise.
func (p Plan) Shrink() Plan {
	for size := (len(p.Faults) + 1) / 2; size >= 1; {
		smaller := false
		for from := 0; from < len(p.Faults); {
			if fewer := p.without(from, size); fewer.Run(nil).Err != nil {
				p, smaller = fewer, true
			} else {
				from += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return p
}

// Outcome is what a plan came to.
type Outcome struct {
	Err   error // the first promise that did not hold
	Steps int
	Tasks int
}

// Run tells the plan's story: the faults, then the calm in which everything has to settle.
// The story is written when somebody wants to read it.
func (p Plan) Run(story *strings.Builder) Outcome {
	w := newWorld(p.Seed)
	w.story = story
	w.populate()
	for _, f := range p.Faults {
		w.at(epoch.Add(f.At), func() { w.befall(f) })
	}
	end := 20 * time.Second
	for _, f := range p.Faults {
		end = max(end, f.At+f.For)
	}
	w.pass(end + time.Second)
	w.calm()
	return Outcome{Err: w.broken, Steps: w.steps, Tasks: len(w.truth.order)}
}

// befall begins a fault, and plans its end.
func (w *World) befall(f Fault) {
	for _, kind := range faults {
		if kind.kind != f.Kind {
			continue
		}
		w.say("fault", "%s (%d) for %v", f.Kind, f.Whom, f.For)
		if end := kind.begin(w, f); end != nil {
			w.in(f.For, func() {
				w.say("fault", "ends: %s (%d)", f.Kind, f.Whom)
				end()
			})
		}
	}
}

// disk is what volumes are made of.
var disk = api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 1_000_000})

// populate draws a cluster and its work.
func (w *World) populate() {
	r := w.random
	if r.IntN(3) == 0 {
		w.quorum.policy = "priority"
	}
	w.quorum.config.GoneAfter = -1
	w.quorum.elect()
	for i := range 1 + r.IntN(4) {
		m := w.addMachine(fmt.Sprintf("h%d", i+1), api.Scalars(float64(1+r.IntN(4)), 2048).Plus(disk))
		if r.IntN(4) == 0 {
			m.config.ExecutorIdle = time.Second
		}
		if r.IntN(4) == 0 {
			m.config.StubsMax = 3
		}
		w.in(w.between(0, time.Second), m.start)
	}
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprintf("f%d", i+1)
		k := newWork(w, name, 1+r.IntN(25))
		k.stated, k.own, k.faulty, k.saves = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(4) == 0
		s := w.addScheduler(name, k)
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

// calm ends all that goes wrong; then everything has to come to rest, and at last to nothing.
func (w *World) calm() {
	if w.broken != nil {
		return
	}
	w.say("world", "the calm begins")
	w.kind = true
	w.quorum.start()
	w.electIfNone()
	w.in(time.Second, func() {
		for _, m := range w.machines {
			m.rejoin()
			m.start()
			m.fill(false)
			m.mark(core.MarkAgent{Clear: api.MarkDraining | api.MarkDrained | api.MarkDeactivated})
		}
		for _, s := range w.schedulers {
			s.rejoin()
			s.start()
			s.limit(api.Resources{})
		}
	})
	w.rest("to settle", 5*time.Minute, w.truth.settled)
	w.say("world", "all work ends")
	w.truth.short = true
	for _, s := range w.schedulers {
		s.work.resting = true
		s.work.sayDemand(s)
	}
	for _, m := range w.machines {
		for _, p := range m.processes {
			p.finishAll()
		}
	}
	w.rest("to end its work", 5*time.Minute, func() string {
		w.giveUpLost()
		for _, s := range w.schedulers {
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
