package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/view"
)

// What people and misfortune do to the parts of a world.

func (w *World) electIfNone() {
	if w.quorum.leader == nil {
		w.quorum.elect()
	}
}

// ask brings an operator's action to the leader, if there is one.
func (w *World) ask(action core.Action) {
	if l := w.leader(); l != nil {
		l.request(action, func(core.Reply) {})
	}
}

// stall lets the leader's loop be away: what comes meanwhile waits (R23).
func (w *World) stall(span time.Duration) {
	l := w.leader()
	if l == nil {
		return
	}
	l.stalled = true
	w.in(span, func() {
		l.stalled = false
		l.step(core.Away{Gap: span})
		late := l.late
		l.late = nil
		for _, event := range late {
			l.stepCame(event.What, event.Came)
		}
		l.armed = time.Time{}
		l.round()
	})
}

// mark changes the marks of the machine's agent, if it has a name by now.
func (m *machine) mark(action core.MarkAgent) {
	if m.daemon == nil {
		return
	}
	if action.Agent = string(m.daemon.core.Identity().Agent); action.Agent != "" {
		m.world.ask(action)
	}
}

// goneWhileAway gives an agent up that is alive and can't be heard.
func (m *machine) goneWhileAway() {
	m.isolate()
	m.world.in(time.Second, func() { m.mark(core.MarkAgent{Set: api.MarkGone, Force: true}) })
}

// living are the executors that run.
func (m *machine) living() []*process {
	return slices.DeleteFunc(slices.Clone(m.processes), func(p *process) bool { return p.dead || p.gated })
}

func (m *machine) killExecutor() {
	if living := m.living(); len(living) > 0 {
		living[m.world.random.IntN(len(living))].end("kill -9")
	}
}

func (m *machine) cutExecutor() {
	if living := m.living(); len(living) > 0 {
		if p := living[m.world.random.IntN(len(living))]; p.line != nil {
			p.line.stream.tear()
		}
	}
}

// finishAll ends what runs, by itself.
func (p *process) finishAll() {
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		p.finish(p.tasks[id])
	}
}

func (s *scheduler) cut() {
	if s.line != nil {
		s.world.say(s.name, "the stream breaks")
		s.line.stream.tear()
	}
}

// killByOperator has an operator end one of the framework's tasks.
func (s *scheduler) killByOperator() {
	ids := slices.Sorted(maps.Keys(s.work.tasks))
	if len(ids) > 0 && s.info.ID != "" {
		id := ids[s.world.random.IntN(len(ids))]
		s.world.ask(core.KillTask{Task: string(s.info.ID) + "/" + string(id)})
	}
}

// shutDownExecutor ends one of the framework's executors, whatever runs there.
func (s *scheduler) shutDownExecutor() {
	m := s.world.machines[s.world.random.IntN(len(s.world.machines))]
	for _, p := range m.living() {
		if p.run.Executor.Framework == s.info.ID && s.phase == active && m.daemon != nil {
			p.unwanted = true
			s.step(sdk.CallAsked{Call: protocol.ShutdownExecutor{Agent: m.daemon.core.Identity().Agent, Executor: p.run.Executor.Executor}})
			return
		}
	}
}

// copyFolder starts a second machine on a copy of what the first has on disk: while the first
// is alive it is refused, and in the end gives up.
func (m *machine) copyFolder() {
	twin := m.world.addMachine(m.name+"-copy", m.config.Agent.Resources)
	twin.twin = true
	twin.disk = slices.Clone(m.disk)
	twin.start()
}

// remove has an operator remove the framework.
func (s *scheduler) remove() {
	if s.info.ID != "" {
		s.world.ask(core.RemoveFramework{Framework: string(s.info.ID), Force: true})
	}
}

// removeOrphans has an operator remove the frameworks to which no scheduler comes back: those
// that a snapshot has brought back to life, and those whose name has become another's.
func (w *World) removeOrphans() {
	if l := w.leader(); l != nil {
		for _, view := range l.core.View().Frameworks(view.Query{States: []string{"disconnected"}}).Items {
			w.ask(core.RemoveFramework{Framework: string(view.Framework.ID), Force: true})
		}
	}
}

// giveUpLost has an operator mark the agents gone that no machine is any more: a snapshot has
// forgotten that they were, or that there ever were such agents.
func (w *World) giveUpLost() {
	if l := w.leader(); l != nil {
		for _, view := range l.core.View().Agents(view.Query{States: []string{"TOMBSTONE", "DISCONNECTED"}}).Items {
			unknown := view.Agent.Hostname == "" // only frameworks know of it
			if !view.Marks.Has(api.MarkGone) && (unknown || view.State == api.AgentTombstone) && w.truth.mayBeAway(view.Agent.ID) {
				w.ask(core.MarkAgent{Agent: string(view.Agent.ID), Set: api.MarkGone, Force: true})
			}
		}
	}
}

func (s *scheduler) limit(limit api.Resources) {
	s.world.ask(core.Set{Setting: settings.Role{Role: s.info.Roles[0], Limit: &limit}})
}

func (s *scheduler) tearDown() { s.step(sdk.TeardownAsked{}) }
