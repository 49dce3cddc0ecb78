package frameworktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework"
)

// Plan is a list of faults in the order of their time. Its text is what a failed test prints.
type Plan struct {
	Seed   uint64
	Length time.Duration // the faults lie in it; then comes the calm
	Faults []Fault
}

// Fault is one thing that goes wrong and, after a while, right again.
type Fault struct {
	At    time.Duration // since the plan began
	For   time.Duration
	Do    FaultKind
	Whom  int // which one of the kind's kind; modulo how many there are
	Whom2 int // the other end, where there is one
}

// FaultKind is what goes wrong.
type FaultKind string

// The faults.
const (
	KillLeader       FaultKind = "kill the leader"            // back after For, with its disk
	KillMaster       FaultKind = "kill master"                // same
	IsolateLeader    FaultKind = "isolate the leader"         // it reaches nobody, nobody reaches it
	IsolateMaster    FaultKind = "isolate master"             //
	KillAgent        FaultKind = "kill agent"                 // its executors live on; back after For
	IsolateAgent     FaultKind = "isolate agent"              //
	DeafenAgent      FaultKind = "deafen agent"               // it can speak to master Whom2, but does not hear it
	MuteAgent        FaultKind = "mute agent"                 // it hears master Whom2, but can't speak to it
	RebootAgent      FaultKind = "reboot agent"               // with all that runs on it
	GiveUpAgent      FaultKind = "mark gone, isolated, agent" // back after For, to learn it then
	FillDisk         FaultKind = "fill the disk of agent"     // and what it has in reserve, sometimes
	KillExecutor     FaultKind = "kill an executor of agent"  //
	IsolateFramework FaultKind = "isolate framework"          //
	KillFramework    FaultKind = "kill framework"             // needs [Chaos.Again]
)

func (f Fault) String() string {
	text := fmt.Sprintf("%8.3fs %s", f.At.Seconds(), f.Do)
	switch f.Do {
	case KillLeader, IsolateLeader:
	case DeafenAgent, MuteAgent:
		text += fmt.Sprintf(" %d toward master %d", f.Whom, f.Whom2)
	default:
		text += fmt.Sprintf(" %d", f.Whom)
	}
	return text + fmt.Sprintf(" for %.3fs", f.For.Seconds())
}

func (p Plan) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d, %d faults in %v:\n", p.Seed, len(p.Faults), p.Length)
	for _, fault := range p.Faults {
		fmt.Fprintf(&out, "  %s\n", fault)
	}
	return out.String()
}

// weights say how often a fault is chosen.
var weights = []struct {
	kind   FaultKind
	weight int
}{
	{KillLeader, 3}, {KillMaster, 2}, {IsolateLeader, 3}, {IsolateMaster, 1},
	{KillAgent, 4}, {IsolateAgent, 4}, {DeafenAgent, 1}, {MuteAgent, 1}, {RebootAgent, 2}, {KillExecutor, 2},
	{GiveUpAgent, 1}, {FillDisk, 2},
	{IsolateFramework, 2}, {KillFramework, 2},
}

// NewPlan draws a plan: the same seed gives the same plan. Kinds that are not to come are left out.
func NewPlan(seed uint64, length time.Duration, without ...FaultKind) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := Plan{Seed: seed, Length: length}
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	mean := 500*time.Millisecond + time.Duration(random.Int64N(int64(6*time.Second)))
	for at := time.Duration(0); ; {
		at += time.Duration(random.Int64N(int64(2 * mean)))
		if at >= length {
			return plan
		}
		pick := random.IntN(total)
		fault := Fault{At: at, Whom: random.IntN(100) + 1, Whom2: random.IntN(5) + 1, For: outage(random)}
		for _, w := range weights {
			if pick -= w.weight; pick < 0 {
				fault.Do = w.kind
				break
			}
		}
		if !slices.Contains(without, fault.Do) {
			plan.Faults = append(plan.Faults, fault)
		}
	}
}

// outage is mostly short, sometimes longer than a session timeout, rarely longer than a tombstone.
func outage(random *rand.Rand) time.Duration {
	most := 3 * time.Second
	switch n := random.IntN(10); {
	case n == 9:
		most = 50 * time.Second
	case n >= 6:
		most = 12 * time.Second
	}
	return time.Duration(random.Int64N(int64(most)))
}

// Chaos carries a plan out.
type Chaos struct {
	Plan Plan
	// Between, if set, is called before each fault begins and after it has ended.
	Between func()
	// Again makes the successor of a scheduler that was killed. nil: none is killed.
	Again func(killed *Framework) framework.Scheduler
}

// step is a fault's beginning or end.
type step struct {
	at   time.Duration
	text string
	do   func()
}

// Chaos carries out the plan: it returns when the last fault is over and everything is whole again. What
// it breaks it mends, so afterwards the story may expect the cluster to come to rest.
func (h *Handle) Chaos(chaos Chaos) {
	h.t.Helper()
	h.plans = append(h.plans, chaos.Plan)
	began := time.Now()
	var steps []step
	for _, fault := range chaos.Plan.Faults {
		begin, end := h.fault(chaos, fault)
		steps = append(steps, step{fault.At, fault.String(), func() {
			h.logs.add("chaos", "begins: "+fault.String())
			begin()
		}})
		steps = append(steps, step{fault.At + fault.For, fault.String(), func() {
			h.logs.add("chaos", "ends: "+fault.String())
			end()
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	for _, s := range steps {
		if wait := s.at - time.Since(began); wait > 0 {
			h.Advance(wait)
		}
		h.inspect()
		if chaos.Between != nil {
			chaos.Between()
		}
		s.do()
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

// fault gives the beginning and the end of a fault. Who is meant is known when it begins.
func (h *Handle) fault(chaos Chaos, fault Fault) (begin, end func()) {
	master := func() *Master { return h.masters[(fault.Whom-1)%len(h.masters)] }
	var m *Master
	agent := h.agents[(fault.Whom-1)%len(h.agents)]
	nothing := func() {}
	switch fault.Do {
	case KillLeader:
		return func() { m = h.leaderOrFirst(); m.Kill() }, func() { m.Start() }
	case KillMaster:
		return func() { m = master(); m.Kill() }, func() { m.Start() }
	case IsolateLeader:
		return func() { m = h.leaderOrFirst(); m.Isolate() }, func() { m.Rejoin() }
	case IsolateMaster:
		return func() { m = master(); m.Isolate() }, func() { m.Rejoin() }
	case KillAgent:
		return agent.Kill, agent.Start
	case IsolateAgent:
		return agent.Isolate, agent.Rejoin
	case DeafenAgent:
		m = h.masters[(fault.Whom2-1)%len(h.masters)]
		return func() { h.network.Mute(m.host, agent.host.name) }, func() { h.network.Unmute(m.host, agent.host.name) }
	case MuteAgent:
		m = h.masters[(fault.Whom2-1)%len(h.masters)]
		return func() { h.network.Mute(agent.host.name, m.host) }, func() { h.network.Unmute(agent.host.name, m.host) }
	case RebootAgent:
		return func() { agent.Kill(); agent.Reboot() }, agent.Start
	case GiveUpAgent:
		return func() { agent.Isolate(); agent.giveUp() }, agent.Rejoin
	case FillDisk:
		reserve := []int{1 << 20, 100, 0}[fault.Whom2%3]
		return func() { agent.host.disk.Fill(true, reserve) }, func() { agent.host.disk.Fill(false, 0) }
	case KillExecutor:
		return func() { agent.KillExecutor(fault.Whom2) }, nothing
	case IsolateFramework:
		var f *Framework
		return func() {
				if f = h.framework(fault.Whom); f != nil {
					f.Isolate()
				}
			}, func() {
				if f != nil {
					f.Rejoin()
				}
			}
	case KillFramework:
		var f *Framework
		return func() {
				if f = h.framework(fault.Whom); f != nil && chaos.Again != nil {
					f.Kill()
				}
			}, func() {
				if f != nil && chaos.Again != nil {
					f.Again(chaos.Again(f))
				}
			}
	}
	h.t.Fatalf("no fault is called %q", fault.Do)
	return nil, nil
}

// framework gives one of those that run.
func (h *Handle) framework(whom int) *Framework {
	running := h.Frameworks()
	if len(running) == 0 {
		return nil
	}
	return running[(whom-1)%len(running)]
}
