package frameworktest

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

type (
	// Plan is a list of faults, with the seed and the length for which they were drawn. Its text is what a failed test
	// prints.
	Plan = chaos.Plan
	// Fault is one thing that goes wrong and, after a while, right again. At is when it begins after the plan's begin,
	// For is how long it lasts, Do is what goes wrong. Whom says with which one: the first is 1, and numbers beyond the
	// last begin again with the first. Whom2 is the other end, or the direction, where there are several.
	Fault = chaos.Fault
	// FaultKind is a kind of fault. Its text is the same as that of `make chaos` for the same fault of real processes.
	FaultKind = chaos.FaultKind
)

// The faults. A follower is a master that does not lead; if there is only one master, that master is meant.
const (
	KillLeader       = chaos.KillLeader   // back after For, with its disk
	KillFollower     = chaos.KillFollower // back after For, with its disk
	IsolateLeader    = chaos.CutLeader    // it reaches nobody, nobody reaches it
	IsolateFollower  = chaos.CutFollower
	KillAgent        = chaos.KillAgent // its executors live on; it is back after For
	IsolateAgent     = chaos.CutAgent
	DeafenAgent      = FaultKind("deafen/agent") // it can speak to master Whom2, but does not hear it
	MuteAgent        = FaultKind("mute/agent")   // it hears master Whom2, but can't speak to it
	RebootAgent      = chaos.RebootAgent         // with all that runs on it
	GiveUpAgent      = chaos.GoneAgent           // isolated and marked gone; back after For, when it learns of that
	FillDisk         = chaos.FullAgent           // and sometimes its reserve too
	KillExecutor     = chaos.KillExecutor
	IsolateFramework = chaos.CutScheduler
	KillFramework    = chaos.KillScheduler // needs [Chaos.Again]
)

// stage is the cluster of a story, on which a plan is carried out.
type stage struct {
	*Handle
	chaos Chaos
}

// acts are the faults that the cluster in memory can have.
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

// NewPlan draws a plan, without the kinds of faults that are listed. The same seed gives the same plan.
func NewPlan(seed uint64, length time.Duration, without ...FaultKind) Plan {
	return chaos.Draw(seed, length, slices.DeleteFunc(slices.Clone(acts), func(act chaos.Act[stage]) bool {
		return slices.Contains(without, act.Do)
	}))
}

// Chaos says how a plan is carried out.
type Chaos struct {
	Plan Plan
	// Between is called before each fault begins and after it has ended; nil: it is not called.
	Between func()
	// Again makes the successor of a scheduler that was killed; nil: no scheduler is killed.
	Again func(killed *Framework) framework.Scheduler
}

// Chaos carries out the plan. It returns when the last fault is over and everything is whole again. What it breaks it
// repairs, so the story may expect the cluster to come to rest afterwards.
func (h *Handle) Chaos(faults Chaos) {
	h.t.Helper()
	h.plans = append(h.plans, faults.Plan)
	if err := chaos.Play(faults.Plan, stage{h, faults}, acts); err != nil {
		h.t.Fatal(err)
	}
	h.Mend()
}

// Mend repairs everything: it joins all links and starts all masters and agents.
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

// Tell inspects the cluster before something changes.
func (s stage) Tell(what string, f Fault) {
	s.inspectView()
	if s.chaos.Between != nil {
		s.chaos.Between()
	}
	s.logs.add("chaos", what+": "+f.String())
}

// Calm does not wait: here a fault may begin while others last.
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

// mute is a fault of one direction between an agent and a master.
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

// onFramework is a fault of one of the running frameworks, if there is any.
func onFramework(begin, end func(Chaos, *Framework)) chaos.Begin[stage] {
	return func(s stage, f Fault) (func() error, error) {
		running := s.Frameworks()
		if len(running) == 0 {
			return nil, nil
		}
		framework := running[f.Of(len(running))]
		begin(s.chaos, framework)
		return func() error { end(s.chaos, framework); return nil }, nil
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
