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

// What operators and faults do to the parts of a world.

func (w *World) electIfNone() {
	if w.quorum.leader == nil {
		w.quorum.electLeader()
	}
}

// askLeader sends an operator's action to the leader, if there is one.
func (w *World) askLeader(action core.Action) {
	if l := w.findLeader(); l != nil {
		l.requestAction(action, func(core.Reply) {})
	}
}

// stallLeader stops the leader's loop for a time: what comes meanwhile waits (R23).
func (w *World) stallLeader(span time.Duration) {
	l := w.findLeader()
	if l == nil {
		return
	}
	l.stalled = true
	w.planIn(span, func() {
		l.stalled = false
		l.stepCore(core.Away{Gap: span})
		late := l.late
		l.late = nil
		for _, event := range late {
			l.stepCame(event.What, event.Came)
		}
		l.waker = waker{}
		l.planRound()
	})
}

// markAgent changes the marks of the machine's agent, if the agent has an ID by now.
func (m *machine) markAgent(action core.MarkAgent) {
	if m.daemon == nil {
		return
	}
	if action.Agent = string(m.daemon.core.Identity().Agent); action.Agent != "" {
		m.world.askLeader(action)
	}
}

// goneWhileAway marks an agent gone that is alive but can't be heard.
func (m *machine) goneWhileAway() {
	m.cutOff()
	m.world.planIn(time.Second, func() { m.markAgent(core.MarkAgent{Set: api.MarkGone, Force: true}) })
}

// listExecutors returns the executors that run.
func (m *machine) listExecutors() []*process {
	return slices.DeleteFunc(slices.Clone(m.processes), func(p *process) bool { return p.dead || p.gated })
}

func (m *machine) killExecutor() {
	if living := m.listExecutors(); len(living) > 0 {
		living[m.world.random.IntN(len(living))].endProcess("kill -9")
	}
}

func (m *machine) cutExecutor() {
	if living := m.listExecutors(); len(living) > 0 {
		if p := living[m.world.random.IntN(len(living))]; p.line != nil {
			p.line.stream.tear()
		}
	}
}

// finishAll lets all tasks of the process end by themselves.
func (p *process) finishAll() {
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		p.finishTask(p.tasks[id])
	}
}

func (s *scheduler) breakStream() {
	if s.line != nil {
		s.world.tellStory(s.name, "the stream breaks")
		s.line.stream.tear()
	}
}

// killByOperator lets an operator kill one of the framework's tasks.
func (s *scheduler) killByOperator() {
	ids := slices.Sorted(maps.Keys(s.work.tasks))
	if len(ids) > 0 && s.info.ID != "" {
		id := ids[s.world.random.IntN(len(ids))]
		s.world.endByOperator(s.world.truth.launches[s.work.tasks[id].label])
	}
}

// shutDownExecutor ends one of the framework's executors, whatever runs there. Job managers never do.
func (s *scheduler) shutDownExecutor() {
	if _, is := s.user.(*office); is {
		return
	}
	m := s.world.machines[s.world.random.IntN(len(s.world.machines))]
	for _, p := range m.listExecutors() {
		if p.run.Executor.Framework == s.info.ID && s.phase == active && m.daemon != nil {
			p.unwanted = true
			s.stepCore(sdk.CallAsked{Call: protocol.ShutdownExecutor{Agent: m.daemon.core.Identity().Agent, Executor: p.run.Executor.Executor}})
			return
		}
	}
}

// copyFolder starts a second machine on a copy of the first one's disk. While the first is alive the second is refused,
// and finally gives up.
func (m *machine) copyFolder() {
	twin := m.world.addMachine(m.name+"-copy", m.config.Agent.Resources)
	twin.twin = true
	twin.disk = slices.Clone(m.disk)
	twin.stored.addRecords(twin.disk)
	twin.startAgent()
}

// removeByForce lets an operator remove the framework.
func (s *scheduler) removeByForce() {
	if s.info.ID != "" {
		s.world.removeFramework(s.info.ID, true)
	}
}

// removeOrphans lets an operator remove the frameworks to which no scheduler comes back: those that a restored snapshot
// has brought back, and those whose name now belongs to another framework.
func (w *World) removeOrphans() {
	if l := w.findLeader(); l != nil {
		for _, view := range view.PageOf(l.core.View(), view.FrameworkList, view.Query{States: []string{"disconnected"}}).Items {
			w.removeFramework(view.Framework.ID, true)
		}
	}
}

// giveUpLost lets an operator mark the agents gone that no machine has any more. A restored snapshot has forgotten that
// they were marked, or that there ever were such agents.
func (w *World) giveUpLost() {
	if l := w.findLeader(); l != nil {
		for _, view := range view.PageOf(l.core.View(), view.AgentList, view.Query{States: []string{"TOMBSTONE", "DISCONNECTED"}}).Items {
			unknown := view.Agent.Hostname == "" // only frameworks know of the agent
			if !view.Marks.Has(api.MarkGone) && (unknown || view.State == api.AgentTombstone) && w.truth.mayBeAway(view.Agent.ID) {
				w.askLeader(core.MarkAgent{Agent: string(view.Agent.ID), Set: api.MarkGone, Force: true})
			}
		}
	}
}

// rankRole gives the framework's role a priority, a weight and a guarantee; unrankRole takes them back.
func (s *scheduler) rankRole() {
	r := s.world.random
	priority, weight, guarantee := r.IntN(3), 1+float64(r.IntN(3)), api.Scalars(float64(r.IntN(3))*0.4, 0)
	s.setRole(priority, weight, guarantee)
}

func (s *scheduler) unrankRole() { s.setRole(0, 1, api.Resources{}) }

func (s *scheduler) setRole(priority int, weight float64, guarantee api.Resources) {
	s.world.askLeader(core.Set{Setting: settings.Role{Role: s.info.Roles[0], Priority: &priority, Weight: &weight, Guarantee: &guarantee, Force: true}})
}

func (s *scheduler) limitRole(limit api.Resources) {
	s.world.askLeader(core.Set{Setting: settings.Role{Role: s.info.Roles[0], Limit: &limit}})
}

func (s *scheduler) tearDown() {
	s.mayGo()
	s.stepCore(sdk.TeardownAsked{})
}

// mayGo notes that the framework may be removed from now on, whoever subscribes as it.
func (s *scheduler) mayGo() {
	if s.info.ID != "" {
		s.world.truth.decided.asked[s.info.ID] = s.world.now.Add(time.Hour)
	}
}

// removeFramework lets an operator remove a framework: by force, or only if no scheduler is connected, of which the
// leader is sure when it answers.
func (w *World) removeFramework(id api.FrameworkID, force bool) {
	until := w.now
	if force {
		until = w.now.Add(time.Hour)
	}
	if until.After(w.truth.decided.asked[id]) { // what was asked for by force is on its way all the same
		w.truth.decided.asked[id] = until
	}
	w.askLeader(core.RemoveFramework{Framework: string(id), Force: force})
}

// removeIfGone lets an operator remove the framework without force.
func (s *scheduler) removeIfGone() {
	if s.info.ID != "" {
		s.world.removeFramework(s.info.ID, false)
	}
}
