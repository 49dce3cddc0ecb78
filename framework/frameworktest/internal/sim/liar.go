package sim

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/view"
)

// beginLying lets the machine's agent claim to have executors that nobody has launched; it stops when it is honest again.
func (m *machine) beginLying() {
	m.lies = true
	m.world.truth.liars = append(m.world.truth.liars, m)
	m.breakStream()
}

func (m *machine) endLying() {
	m.lies = false
	m.breakStream()
}

// addLies returns the call with what a lying agent adds to it.
func (m *machine) addLies(call protocol.AgentCall) protocol.AgentCall {
	report, is := call.(protocol.AgentReport)
	if !is || !m.lies {
		return call
	}
	much := api.Scalars(1000, 100)
	for _, s := range m.world.schedulers {
		if s.info.ID != "" {
			report.Executors = append(report.Executors, protocol.ReportedExecutor{
				Framework: s.info.ID, Role: s.info.Roles[0], Resources: much,
				Executor: api.Executor{ID: "invented", Command: api.Command{Shell: "serve"}, Resources: much},
			})
		}
	}
	stranger := api.Framework{ID: "framework-900", Name: "payments", Roles: []api.Role{"role-f1"}}
	report.Frameworks = append(report.Frameworks, stranger)
	report.Executors = append(report.Executors, protocol.ReportedExecutor{
		Framework: stranger.ID, Role: "role-f1", Executor: api.Executor{ID: "invented", Command: api.Command{Shell: "serve"}},
	})
	return report
}

// checkBelieved checks that nobody is believed about what no leader has launched: neither a framework nor what one holds
// (R40).
func (t *truth) checkBelieved(l *leader) {
	if len(t.world.quorum.config.ReceiptKey) == 0 {
		return
	}
	for _, shown := range view.PageOf(l.core.View(), view.FrameworkList, view.Query{}).Items {
		if !t.frameworks[shown.Framework.ID] {
			t.world.breakStory("framework %s is shown, and no scheduler has ever subscribed as it (R40)", shown.Framework.ID)
		}
		if held := shown.Allocated.Plain(); !t.world.sumMachines().Contains(held) {
			t.world.breakStory("framework %s is booked %v, more than all machines have (R40)", shown.Framework.ID, held)
		}
	}
}

// mayBeFooled reports whether a leader may believe what the agent has invented, as it can where launches have no
// receipts. An answer to an older offer may still hold what such an agent takes away by a lie.
func (t *truth) mayBeFooled(id api.AgentID) bool {
	return len(t.world.quorum.config.ReceiptKey) == 0 &&
		slices.ContainsFunc(t.liars, func(m *machine) bool { return m.agentOf() == id })
}

// sumMachines returns what all machines have together.
func (w *World) sumMachines() (sum api.Resources) {
	for _, m := range w.machines {
		sum = sum.Plus(m.whole)
	}
	return sum
}
