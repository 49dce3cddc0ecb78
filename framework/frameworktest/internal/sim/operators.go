package sim

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
)

// What operators ask for, with and without force, and what they were answered.

// drainAndRegret drains the machine's agent and takes that back at once, as a person does who has named the wrong agent.
func (m *machine) drainAndRegret() {
	m.markAgent(core.MarkAgent{Set: api.MarkDraining})
	m.world.planIn(m.world.drawPause(), m.clearMarks)
}

// clearMarks takes all marks back. A person who is told that the agent has changed since looks and asks again.
func (m *machine) clearMarks() {
	id, l := m.agentOf(), m.world.findLeader()
	if id == "" || l == nil {
		return
	}
	action := core.MarkAgent{Agent: string(id), Clear: api.MarkDraining | api.MarkDrained | api.MarkDeactivated}
	l.requestAction(action, func(r core.Reply) {
		if r.Err != nil && r.Err.Kind == api.Stale {
			m.world.planIn(time.Second, m.clearMarks)
		}
	})
}

// askPolitely asks for something that a leader refuses while it would end work: no force is used.
func (m *machine) askPolitely() {
	switch m.world.random.IntN(4) {
	case 0:
		m.markAgent(core.MarkAgent{Remove: true})
	case 1:
		m.markAgent(core.MarkAgent{Set: api.MarkGone})
	case 2:
		m.markAgent(core.MarkAgent{Set: api.MarkDeactivated})
	default:
		m.markAgent(core.MarkAgent{Set: api.MarkDraining, Grace: m.world.drawBetween(0, 3*time.Second)})
	}
}

// givenUp marks the agent gone, and kills its process as it hears of it. It is started again soon.
func (m *machine) givenUp() {
	m.markAgent(core.MarkAgent{Set: api.MarkGone, Force: true})
	m.world.planIn(m.world.drawBetween(0, 15*time.Millisecond), func() {
		m.killAgent()
		m.world.planIn(m.world.drawBetween(0, 3*time.Second), m.startAgent)
	})
}

// planMaintenance plans maintenance of the machine's agent by the leader's calendar; cancelMaintenance takes it back.
func (m *machine) planMaintenance() {
	if l := m.world.findLeader(); l != nil {
		window := api.Window{Start: l.readClock().Round(0).Add(m.world.drawBetween(-time.Second, 20*time.Second)), Duration: m.world.drawBetween(0, 20*time.Second)}
		m.setMaintenance(window)
		if m.world.random.IntN(3) == 0 {
			m.world.planIn(m.world.drawPause(), m.cancelMaintenance)
		}
	}
}

func (m *machine) cancelMaintenance() { m.setMaintenance(api.Window{}) }

func (m *machine) setMaintenance(window api.Window) {
	if id := m.agentOf(); id != "" {
		m.world.askLeader(core.SetMaintenance{Agents: []string{string(id)}, Window: window})
	}
}

// agentOf returns the ID of the agent that runs on the machine; "" if there is none.
func (m *machine) agentOf() api.AgentID {
	if m.daemon == nil {
		return ""
	}
	return m.daemon.core.Identity().Agent
}

// changeReserved lets an operator change what is reserved on the machine's agent, or make or destroy a volume there. There are
// few IDs of volumes, so that they are used again. Some agents fall silent at that moment.
func (m *machine) changeReserved() {
	w := m.world
	id := m.agentOf()
	if id == "" {
		return
	}
	s := w.schedulers[w.random.IntN(len(w.schedulers))]
	role := s.info.Roles[0]
	volume := api.VolumeID([]string{"v1", "v2"}[w.random.IntN(2)])
	some := api.NewResources(api.Resource{Label: api.Label{Name: "cpus"}, Scalar: 700}, api.Resource{Label: api.Label{Name: "disk"}, Scalar: 200_000})
	ask := func(operation api.Operation) {
		w.askLeader(core.ReserveOn{Agent: string(id), Role: role, Operation: operation})
	}
	held := w.quorum.state.Agents[id].Reserved
	switch there := slices.Contains(volumesIn(held), volume); {
	case there && w.random.IntN(8) > 0:
		ask(api.Operation{Kind: api.OpDestroy, Volume: volume})
		m.fallSilent()
	case !held.IsZero() && w.random.IntN(4) > 0:
		ask(api.Operation{Kind: api.OpCreate, Volume: volume, Size: 50_000})
		w.planIn(w.drawBetween(0, 3*time.Second), func() { ask(api.Operation{Kind: api.OpDestroy, Volume: volume}); m.fallSilent() })
	case w.random.IntN(2) == 0:
		ask(api.Operation{Kind: api.OpUnreserve, Resources: some})
	default:
		ask(api.Operation{Kind: api.OpReserve, Resources: some})
		w.planIn(time.Second, func() { ask(api.Operation{Kind: api.OpCreate, Volume: volume, Size: 50_000}) })
	}
}

// fallSilent makes the agent of every other machine fall silent for some seconds, or dies with it.
func (m *machine) fallSilent() {
	w := m.world
	switch w.random.IntN(4) {
	case 0:
		m.cutOff()
		w.planIn(w.drawBetween(0, 8*time.Second), m.joinAgain)
	case 1:
		w.planIn(w.drawPause(), m.breakStream)
	default:
	}
}

// killAtStart kills the machine's agent when it next starts an executor, before that has a process. What waits for this
// executor is DROPPED and tried again (R10); in some of these moments somebody sets the machine's clock.
func (m *machine) killAtStart() { m.doomed = true }

func (m *machine) startsExecutor() {
	if !m.doomed {
		return
	}
	m.doomed = false
	m.world.planIn(m.world.drawBetween(0, 20*time.Millisecond), func() {
		m.killAgent()
		m.world.planIn(m.world.drawPause(), m.startAgent)
		m.world.planIn(m.world.drawBetween(0, time.Second), func() { m.world.setWallClock(&m.clock) })
	})
}

// endAway cuts the machine off, lets an operator kill a task there while its agent is away, and some leaders end before
// it is back.
func (m *machine) endAway() {
	w := m.world
	m.cutOff()
	w.planIn(w.drawBetween(5*time.Second, 8*time.Second), func() {
		if labels := w.truth.livingOn(m); len(labels) > 0 {
			w.endByOperator(w.truth.launches[labels[w.random.IntN(len(labels))]])
		}
		if w.random.IntN(2) == 0 {
			w.planIn(w.drawPause(), w.quorum.electLeader)
		}
	})
}

// endByOperator lets an operator kill a task, and notes what the operator is told.
func (w *World) endByOperator(launched *launch) {
	if l := w.findLeader(); l != nil {
		l.requestAction(core.KillTask{Task: string(launched.framework) + "/" + string(launched.task)}, func(r core.Reply) { w.truth.killedByOperator(launched.label, r) })
	}
}

// loseResources starts the agent again on a machine that has lost most of what it had, and with another attribute; startWhole gives
// it back.
func (m *machine) loseResources() {
	m.changeReserved()
	m.world.planIn(m.world.drawBetween(100*time.Millisecond, 2*time.Second), m.startShrunk)
}

func (m *machine) startShrunk() {
	m.killAgent()
	m.config.Agent.Resources = api.Scalars(0.4, 512).Plus(api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 100_000}))
	m.config.Agent.Attributes = map[string]string{"rack": "r2"}
	m.startAgent()
}

func (m *machine) startWhole() {
	m.killAgent()
	m.config.Agent.Resources, m.config.Agent.Attributes = m.whole, nil
	m.startAgent()
}

// killedByOperator notes that an operator was told that a task ends, now or when its agent is back (R12).
func (t *truth) killedByOperator(label string, reply core.Reply) {
	if answer, is := reply.Answer.(core.KillTaskAnswer); is && reply.Err == nil && answer.Already == api.TaskUnspecified {
		t.kills = append(t.kills, operatorsKill{label, t.world.now})
	}
}

// killWithin is how long a kill may take once its agent has told its leader everything: much longer than its grace.
const killWithin = 20 * time.Second

// killsKept checks that tasks end of which an operator was told so, also when their agents were away then and another
// master leads now (R12).
func (t *truth) killsKept() {
	t.kills = slices.DeleteFunc(t.kills, func(k operatorsKill) bool {
		launched := t.launches[k.label]
		if launched.alive == nil || !launched.alive.alive {
			return true
		}
		d := launched.machine.daemon
		if since := later(k.told, launched.machine.reported); d != nil && d.line != nil && !launched.machine.reported.IsZero() && !launched.machine.isolated && t.world.now.Sub(since) > killWithin {
			t.world.breakStory("launch %s runs on %s, and an operator was told %v ago that it is killed (R12)", k.label, launched.machine.name, t.world.now.Sub(k.told))
		}
		return false
	})
}

// forgetKills forgets the kills that no agent has on its disk, because a snapshot is restored that may be older.
func (t *truth) forgetKills() {
	t.kills = slices.DeleteFunc(t.kills, func(k operatorsKill) bool {
		launched := t.launches[k.label]
		return launched.machine == nil || !t.held[launched.machine].killed[api.TaskRef{Framework: launched.framework, Task: launched.task}]
	})
}

// operatorsKill is a launch of which an operator was told that it ends.
type operatorsKill struct {
	label string
	told  time.Time
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// living returns the launches that run on the machine.
func (t *truth) livingOn(m *machine) (labels []string) {
	for _, label := range t.order {
		if l := t.launches[label]; l.machine == m && l.alive != nil && l.alive.alive {
			labels = append(labels, label)
		}
	}
	return slices.Compact(labels)
}
