package frameworktest

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

type (
	// Plan is a list of faults, and the seed and the length that they were drawn for. Its text is what a failed test prints.
	Plan = chaos.Plan
	// Fault is one thing that goes wrong and, after a while, right again: At since the plan began, For so long, Do what,
	// to Whom: the first is 1, and who is beyond the last is counted from the first again. Whom2 is the other end, or in
	// which way, where there are several.
	Fault = chaos.Fault
	// FaultKind is what goes wrong. Its text is the one that `make chaos` has for the same done to real processes.
	FaultKind = chaos.FaultKind
)

// The faults. A follower is a master that does not lead; where there is one master, that one is meant.
const (
	KillLeader       = chaos.KillLeader   // back after For, with its disk
	KillFollower     = chaos.KillFollower // same
	IsolateLeader    = chaos.CutLeader    // it reaches nobody, nobody reaches it
	IsolateFollower  = chaos.CutFollower
	KillAgent        = chaos.KillAgent // its executors live on; back after For
	IsolateAgent     = chaos.CutAgent
	DeafenAgent      = FaultKind("deafen/agent") // it can speak to master Whom2, but does not hear it
	MuteAgent        = FaultKind("mute/agent")   // it hears master Whom2, but can't speak to it
	RebootAgent      = chaos.RebootAgent         // with all that runs on it
	GiveUpAgent      = chaos.GoneAgent           // isolated and marked gone; back after For, to learn it then
	FillDisk         = chaos.FullAgent           // and what it has in reserve, sometimes
	KillExecutor     = chaos.KillExecutor
	IsolateFramework = chaos.CutScheduler
	KillFramework    = chaos.KillScheduler // needs [Chaos.Again]
)

// stage is a story's cluster, on which a plan is played.
type stage struct {
	*Handle
	chaos Chaos
}

// acts are what the cluster in memory can do.
var acts = []chaos.Act[stage]{
	{Do: KillLeader, Weight: 3, Begin: chaos.On(stage.leads, (*Master).Kill, (*Master).Start)},
	{Do: KillFollower, Weight: 2, Begin: chaos.On(stage.follows, (*Master).Kill, (*Master).Start)},
	{Do: IsolateLeader, Weight: 3, Begin: chaos.On(stage.leads, (*Master).Isolate, (*Master).Rejoin)},
	{Do: IsolateFollower, Weight: 1, Begin: chaos.On(stage.follows, (*Master).Isolate, (*Master).Rejoin)},
	{Do: KillAgent, Weight: 4, Begin: chaos.On(stage.agent, (*Agent).Kill, (*Agent).Start)},
	{Do: IsolateAgent, Weight: 4, Begin: chaos.On(stage.agent, (*Agent).Isolate, (*Agent).Rejoin)},
	{Do: DeafenAgent, Weight: 1, Begin: mute(true)},
	{Do: MuteAgent, Weight: 1, Begin: mute(false)},
	{Do: RebootAgent, Weight: 2, Begin: chaos.On(stage.agent, func(a *Agent) { a.Kill(); a.Reboot() }, (*Agent).Start)},
	{Do: KillExecutor, Weight: 2, Begin: func(s stage, f Fault) (func() error, error) {
		s.agent(f).KillExecutor(f.Whom2)
		return nil, nil
	}},
	{Do: GiveUpAgent, Weight: 1, Begin: chaos.On(stage.agent, func(a *Agent) { a.Isolate(); a.giveUp() }, (*Agent).Rejoin)},
	{Do: FillDisk, Weight: 2, Begin: func(s stage, f Fault) (func() error, error) {
		disk := s.agent(f).host.disk
		disk.Fill(true, []int{1 << 20, 100, 0}[f.Whom2%3])
		return func() error { disk.Fill(false, 0); return nil }, nil
	}},
	{Do: IsolateFramework, Weight: 2, Begin: onFramework(Chaos.isolate, Chaos.rejoin)},
	{Do: KillFramework, Weight: 2, Begin: onFramework(Chaos.kill, Chaos.again)},
}

// NewPlan draws a plan: the same seed gives the same plan. Kinds that are not to come are left out.
func NewPlan(seed uint64, length time.Duration, without ...FaultKind) Plan {
	return chaos.Draw(seed, length, slices.DeleteFunc(slices.Clone(acts), func(act chaos.Act[stage]) bool {
		return slices.Contains(without, act.Do)
	}))
}

// Chaos carries a plan out.
type Chaos struct {
	Plan Plan
	// Between, if set, is called before each fault begins and after it has ended.
	Between func()
	// Again makes the successor of a scheduler that was killed. nil: none is killed.
	Again func(killed *Framework) framework.Scheduler
}

// Chaos carries out the plan: it returns when the last fault is over and everything is whole again. What
// it breaks it mends, so afterwards the story may expect the cluster to come to rest.
func (h *Handle) Chaos(faults Chaos) {
	h.t.Helper()
	h.plans = append(h.plans, faults.Plan)
	if err := chaos.Play(faults.Plan, stage{h, faults}, acts); err != nil {
		h.t.Fatal(err)
	}
	h.Mend()
}

// Mend makes everything whole: links, masters, agents.
func (h *Handle) Mend() {
	h.network.heal()
	for _, m := range h.masters {
		m.Start()
	}
	for _, a := range h.agents {
		a.Start()
	}
}

// Pass lets time pass.
func (s stage) Pass(d time.Duration) error { s.Advance(d); return nil }

// Tell looks around before something changes.
func (s stage) Tell(what string, f Fault) {
	s.inspect()
	if s.chaos.Between != nil {
		s.chaos.Between()
	}
	s.logs.add("chaos", what+": "+f.String())
}

// Calm is not awaited: here faults come upon faults.
func (stage) Calm(Fault) error { return nil }

func (s stage) leads(Fault) *Master { return s.leaderOrFirst() }

func (s stage) follows(f Fault) *Master {
	leader := s.leaderOrFirst()
	others := slices.DeleteFunc(slices.Clone(s.masters), func(m *Master) bool { return m == leader })
	if len(others) == 0 {
		return leader
	}
	return others[f.Of(len(others))]
}

func (s stage) agent(f Fault) *Agent { return s.agents[f.Of(len(s.agents))] }

// mute is for the one direction between an agent and a master, or the other.
func mute(master bool) chaos.Begin[stage] {
	return func(s stage, f Fault) (func() error, error) {
		from, to := s.agent(f).host.name, s.masters[Fault{Whom: f.Whom2}.Of(len(s.masters))].host
		if master {
			from, to = to, from
		}
		s.network.Mute(from, to)
		return func() error { s.network.Unmute(from, to); return nil }, nil
	}
}

// onFramework is for one of those that run, if any does.
func onFramework(begin, end func(Chaos, *Framework)) chaos.Begin[stage] {
	return func(s stage, f Fault) (func() error, error) {
		running := s.Frameworks()
		if len(running) == 0 {
			return nil, nil
		}
		one := running[f.Of(len(running))]
		begin(s.chaos, one)
		return func() error { end(s.chaos, one); return nil }, nil
	}
}

func (Chaos) isolate(f *Framework) { f.Isolate() }
func (Chaos) rejoin(f *Framework)  { f.Rejoin() }

func (c Chaos) kill(f *Framework) {
	if c.Again != nil {
		f.Kill()
	}
}

func (c Chaos) again(f *Framework) {
	if c.Again != nil {
		f.Again(c.Again(f))
	}
}
