package core_test

import (
	"time"

	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/view"
)

// spends holds R80 against a core after each step: from one step to the next the sum over all who have held something
// grows by what the books of all agents hold, times the time that has passed. In a step it does not change, unless an
// agent reports what it held before.
type spends struct {
	fail  func(format string, args ...any)
	at    time.Time
	held  view.Amounts     // by the books of agents
	total map[string]int64 // thousandths of a unit, times a second
}

// begin begins with another leader.
func (s *spends) begin(w *world) {
	if s != nil {
		s.look(w)
	}
}

func (s *spends) look(w *world) {
	s.at, s.held, s.total = w.now, make(view.Amounts), totalOf(w)
	for a := range w.core.View().Leader.Sizes() {
		s.held.Add(a.Used)
	}
}

func totalOf(w *world) map[string]int64 {
	total := make(map[string]int64)
	for _, row := range w.core.View().Usage(w.now).Page(view.UsageQuery{}).Items {
		for _, sum := range row.Sums {
			total[sum.Resource] = int64(sum.Held)
		}
	}
	return total
}

// roundedMax is by how many thousandths of a unit times a second a sum may differ: each account that ends loses less
// than one, and so does each that is read.
const roundedMax = 50

// around steps the core, and compares before and after.
func (s *spends) around(w *world, what core.Happening, step func()) {
	if s == nil {
		step()
		return
	}
	before := totalOf(w)
	for name, total := range before {
		if want := s.total[name] + int64(s.held[name])*w.now.Sub(s.at).Milliseconds()/1000; total-want > roundedMax || want-total > roundedMax {
			s.fail("in %v, while %d of %s were held, the sum grew from %d to %d, not to %d", w.now.Sub(s.at), s.held[name], name, s.total[name], total, want)
		}
	}
	step()
	s.look(w)
	for name, total := range s.total {
		if more := total - before[name]; more < -roundedMax || more > roundedMax && !reports(what) {
			s.fail("by %T the sum of %s went from %d to %d", what, name, before[name], total)
		}
	}
}

func reports(what core.Happening) bool {
	called, is := what.(core.AgentCalled)
	for _, call := range called.Calls {
		if _, report := call.(protocol.AgentReport); report {
			return is
		}
	}
	return false
}
