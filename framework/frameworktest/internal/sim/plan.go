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
	{Do: "break/agent", Weight: 8, Begin: onMachine((*machine).breakStream, nil)}, // its stream
	{Do: chaos.CutAgent, Weight: 5, Begin: onMachine((*machine).cutOff, (*machine).joinAgain)},
	{Do: chaos.KillAgent, Weight: 6, Begin: onMachine((*machine).killAgent, (*machine).startAgent)},
	{Do: chaos.RebootAgent, Weight: 3, Begin: onMachine((*machine).rebootMachine, (*machine).startAgent)},
	{Do: "blink/agent", Weight: 1, Begin: onMachine(func(m *machine) { m.rebootMachine(); m.startAgent() }, nil)}, // rebooted at once
	{Do: chaos.FullAgent, Weight: 2, Begin: onMachine(func(m *machine) { m.fillDisk(true) }, func(m *machine) { m.fillDisk(false) })},
	{Do: chaos.KillExecutor, Weight: 6, Begin: onMachine((*machine).killExecutor, nil)},
	{Do: "break/executor", Weight: 3, Begin: onMachine((*machine).cutExecutor, nil)},
	{Do: chaos.KillLeader, Weight: 4, Begin: onQuorum((*quorum).crashLeader, func(q *quorum) { q.world.electIfNone() })},
	{Do: "depose/leader", Weight: 4, Begin: onQuorum((*quorum).electLeader, nil)},
	{Do: "lose/majority", Weight: 3, Begin: onQuorum((*quorum).stopCommits, (*quorum).resumeCommits)},
	{Do: chaos.Restore, Weight: 1, Begin: onQuorum((*quorum).restoreSnapshot, nil)},
	{Do: "join/master", Weight: 1, Begin: onQuorum((*quorum).addMaster, (*quorum).removeMaster)},
	{Do: "leave/master", Weight: 1, Begin: onQuorum((*quorum).removeMaster, (*quorum).addMaster)},
	{Do: "save/masters", Weight: 1, Begin: onQuorum((*quorum).saveSnapshot, nil)}, // a snapshot
	{Do: "break/scheduler", Weight: 4, Begin: onScheduler((*scheduler).breakStream, nil)},
	{Do: chaos.CutScheduler, Weight: 3, Begin: onScheduler((*scheduler).cutOff, (*scheduler).joinAgain)},
	{Do: chaos.KillScheduler, Weight: 4, Begin: onScheduler((*scheduler).killProcess, (*scheduler).startProcess)},
	{Do: "kill/task", Weight: 5, Begin: onScheduler(func(s *scheduler) { s.work.killSomeTask(s) }, nil)},
	{Do: "drain/agent", Weight: 3, Begin: onMachine(
		func(m *machine) { m.markAgent(core.MarkAgent{Set: api.MarkDraining}) },
		func(m *machine) { m.markAgent(core.MarkAgent{Clear: api.MarkDraining | api.MarkDrained}) })},
	{Do: "mark/agent", Weight: 1, Begin: onMachine(func(m *machine) { m.markAgent(core.MarkAgent{Set: api.MarkGone, Force: true}) }, nil)}, // gone, and it hears of it
	{Do: chaos.GoneAgent, Weight: 2, Begin: onMachine((*machine).goneWhileAway, (*machine).joinAgain)},
	{Do: "remove/agent", Weight: 1, Begin: onMachine(func(m *machine) { m.markAgent(core.MarkAgent{Remove: true, Force: true}) }, nil)},
	{Do: "remove/framework", Weight: 1, Begin: onScheduler((*scheduler).removeByForce, nil)},
	{Do: "stop/leader", Weight: 2, Begin: func(w *World, f chaos.Fault) (func() error, error) { w.stallLeader(f.For); return nil, nil }}, // its loop
	{Do: "clock/agent", Weight: 2, Begin: onMachine(func(m *machine) { m.world.setWallClock(&m.clock) }, nil)},                           // while it runs
	{Do: "clock/down", Weight: 2, Begin: onMachine(func(m *machine) { m.killAgent(); m.world.setWallClock(&m.clock) }, (*machine).startAgent)},
	{Do: "clock/leader", Weight: 2, Begin: onQuorum((*quorum).setClock, nil)},
	{Do: "end/task", Weight: 9, Begin: onScheduler((*scheduler).killByOperator, nil)},
	{Do: "shutdown/executor", Weight: 3, Begin: onScheduler((*scheduler).shutDownExecutor, nil)},
	{Do: "waver/agent", Weight: 2, Begin: onMachine((*machine).drainAndRegret, nil)},
	{Do: "ask/agent", Weight: 2, Begin: onMachine((*machine).askPolitely, (*machine).clearMarks)},
	{Do: "kill/gone", Weight: 1, Begin: onMachine((*machine).givenUp, nil)},
	{Do: "plan/agent", Weight: 6, Begin: onMachine((*machine).planMaintenance, (*machine).cancelMaintenance)},
	{Do: "reserve/agent", Weight: 5, Begin: onMachine((*machine).changeReserved, nil)},
	{Do: "end/away", Weight: 2, Begin: onMachine((*machine).endAway, (*machine).joinAgain)},
	{Do: "shrink/agent", Weight: 2, Begin: onMachine((*machine).loseResources, (*machine).startWhole)},
	{Do: "lie/agent", Weight: 1, Begin: onMachine((*machine).beginLying, (*machine).endLying)},
	{Do: "slow/quorum", Weight: 12, Begin: onQuorum(func(q *quorum) { q.slow = true }, func(q *quorum) { q.slow = false })},
	{Do: "kill/start", Weight: 6, Begin: onMachine((*machine).killAtStart, nil)},
	{Do: "leave/framework", Weight: 2, Begin: onScheduler((*scheduler).removeIfGone, nil)},
	{Do: "write/store", Weight: 12, Begin: onScheduler((*scheduler).writeStore, nil)},
	{Do: "hush/scheduler", Weight: 2, Begin: onScheduler((*scheduler).suppressOffers, (*scheduler).reviveOffers)},
	{Do: "change/framework", Weight: 3, Begin: onScheduler(
		func(s *scheduler) { s.changeFramework(`attributes.?rack.orValue("") != "r2"`) }, func(s *scheduler) { s.changeFramework("") })},
	{Do: "talk/executor", Weight: 1, Begin: onScheduler((*scheduler).talkToExecutors, nil)},
	{Do: "hide/secret", Weight: 2, Begin: onScheduler((*scheduler).hideSecret, (*scheduler).setSecret)},
	{Do: "crowd/agent", Weight: 3, Begin: onMachine((*machine).fillProcessors, (*machine).emptyProcessors)},
	{Do: "rank/role", Weight: 4, Begin: onScheduler((*scheduler).rankRole, (*scheduler).unrankRole)},
	{Do: "limit/role", Weight: 1, Begin: onScheduler(
		func(s *scheduler) { s.limitRole(api.Scalars(1, 512)) }, func(s *scheduler) { s.limitRole(api.Resources{}) })},
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
	w.drawCluster(p.Seed)
	if err := chaos.Play(p, w, acts); err != nil && w.broken == nil {
		w.breakStory("%v", err)
	}
	w.passTime(max(time.Second, epoch.Add(21*time.Second).Sub(w.now)))
	w.endFaults()
	return Outcome{Err: w.broken, Steps: w.steps, Tasks: len(w.truth.order), Coverage: w.coverage}
}

// Pass lets time go by, unless a promise is broken.
func (w *World) Pass(span time.Duration) error { w.passTime(span); return w.broken }

// Tell writes a line about a fault into the story.
func (w *World) Tell(what string, f chaos.Fault) { w.tellStory("fault", "%s: %v", what, f) }

// Calm does not wait: here a fault may begin while others last.
func (*World) Calm(chaos.Fault) error { return nil }

// disk is a resource of which volumes can be made.
var disk = api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 1_000_000})

// drawCluster draws a cluster and its work.
func (w *World) drawCluster(seed uint64) {
	r := w.random
	if r.IntN(3) == 0 {
		w.quorum.policy = "priority"
	}
	w.quorum.config.GoneAfter = -1
	if r.IntN(5) == 0 {
		w.quorum.config.GoneAfter = w.drawBetween(time.Second, 30*time.Second)
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
	w.quorum.electLeader()
	for i := range 1 + r.IntN(4) {
		m := w.addMachine(fmt.Sprintf("h%d", i+1), api.Scalars(float64(1+r.IntN(4)), 2048).Plus(disk))
		if r.IntN(4) == 0 {
			m.config.ExecutorIdle = time.Second
		}
		if r.IntN(4) == 0 {
			m.config.StubsMax = 3
		}
		if r.IntN(3) == 0 {
			m.jumpClock()
		}
		w.planIn(w.drawBetween(0, time.Second), m.startAgent)
	}
	if hasJobs(seed) {
		w.openOffice("jobs")
	}
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprintf("f%d", i+1)
		k := newWork(w, name, 1+r.IntN(25))
		k.stated, k.own, k.faulty, k.saves = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(4) == 0
		k.terse = r.IntN(2) == 0
		k.drawHabits()
		s := w.addScheduler(name, k)
		s.info.Revocable = k.habits.thrifty
		w.planIn(0, s.setSecret)
		if r.IntN(3) == 0 && !k.terse {
			s.info.Roles = append(s.info.Roles, "shared", "role-f1/below")
		}
		if r.IntN(3) == 0 {
			s.info.FailoverTimeout = w.drawBetween(2*time.Second, time.Minute)
		}
		if r.IntN(3) == 0 {
			s.info.Standby = true
			second := w.addScheduler(name, k)
			second.info = s.info
			second.name += "b"
			w.planIn(w.drawBetween(0, 5*time.Second), second.startProcess)
		}
		w.planIn(w.drawBetween(0, time.Second), s.startProcess)
	}
}

// endFaults ends all faults. Then everything has to come to rest, and at the end everything has to be gone.
func (w *World) endFaults() {
	if w.broken != nil {
		return
	}
	w.tellStory("world", "the calm begins")
	w.kind = true
	w.quorum.slow = false
	w.quorum.resumeCommits()
	w.electIfNone()
	w.planIn(time.Second, func() {
		for _, m := range w.machines {
			m.joinAgain()
			if m.lies = false; !m.config.Agent.Resources.Equal(m.whole) {
				m.startWhole()
			}
			m.startAgent()
			m.fillDisk(false)
			m.emptyProcessors()
			m.cancelMaintenance()
			m.clearMarks()
		}
		for _, s := range w.schedulers {
			s.joinAgain()
			s.startProcess()
			s.reviveOffers()
			s.changeFramework("")
			s.setSecret()
			s.limitRole(api.Resources{})
			s.unrankRole()
		}
	})
	w.awaitRest("to settle", 5*time.Minute, w.truth.findUnsettled)
	w.tellStory("world", "all work ends")
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
	w.awaitRest("to end its work", 5*time.Minute, func() string {
		w.giveUpLost()
		for _, s := range w.schedulers {
			if why := s.user.findUnrest(); why != "" {
				return why
			}
			if s.up && len(s.work.tasks) > 0 {
				return fmt.Sprintf("%s still has %d tasks", s.name, len(s.work.tasks))
			}
		}
		return w.truth.findUnsettled()
	})
	w.tellStory("world", "all frameworks are torn down")
	for _, s := range w.schedulers {
		s.work.torn = true
		s.tearDown()
	}
	w.awaitRest("to be empty", 5*time.Minute, func() string {
		w.removeOrphans()
		return w.truth.findLeft()
	})
}

// awaitRest waits until nothing is left that has to come to rest.
func (w *World) awaitRest(what string, within time.Duration, unrest func() string) {
	if w.broken != nil {
		return
	}
	var why string
	end := w.now.Add(within)
	for w.broken == nil && w.now.Before(end) {
		w.passTime(2 * time.Second)
		if why = unrest(); why == "" {
			return
		}
	}
	w.breakStory("the cluster needs more than %v %s: %s", within, what, why)
}
