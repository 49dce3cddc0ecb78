package life_test

import (
	"testing"

	"github.com/tenderhq/tender/master/core/life"
)

// TestStreamsMayComeAndGo: a stream may be opened in each phase that has none, and its end leads back to one of these.
func TestStreamsMayComeAndGo(t *testing.T) {
	for phase := life.Away; phase <= life.Returning; phase++ {
		streamless := phase == life.Away || phase == life.Tombstone || phase == life.Overdue
		if open := phase.Opened(); streamless && !phase.May(open) {
			t.Errorf("an agent that is %v may not become %v by its stream", phase, open)
		}
		if closed := phase.Closed(); !streamless && !phase.May(closed) {
			t.Errorf("an agent that is %v may not become %v as its stream ends", phase, closed)
		}
	}
}

// TestTheDeadReportFirst: no agent that was taken for dead does what it is told before it has reported.
func TestTheDeadReportFirst(t *testing.T) {
	for phase := life.Away; phase <= life.Returning; phase++ {
		if phase.Dead() && (phase.Reported() || phase.May(life.Up) || phase.May(life.Initing)) {
			t.Errorf("an agent that is %v counts as alive without a report", phase)
		}
	}
}
