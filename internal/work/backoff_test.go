package work_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// TestPausesDouble: each pause is between a half and the whole of what its row asks for, never more than Max, however
// long the row is, and the same for the same task.
func TestPausesDouble(t *testing.T) {
	b := work.Backoff{First: time.Second, Max: time.Minute}
	for row, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 31: time.Minute, 1 << 40: time.Minute} {
		shortest, longest := most, time.Duration(0)
		for i := range 2000 {
			task := api.TaskID(fmt.Sprintf("task.%d", i))
			pause := b.After(row, false, task)
			if pause != b.After(row, false, task) {
				t.Fatalf("row %d: two pauses for %s", row, task)
			}
			shortest, longest = min(shortest, pause), max(longest, pause)
		}
		if shortest < most/2 || longest > most || longest-shortest < most/4 {
			t.Errorf("row %d: pauses from %v to %v, want from %v to %v", row, shortest, longest, most/2, most)
		}
	}
}

// TestTheFirstLossCostsNoPause: the second of a row costs what the first failure would.
func TestTheFirstLossCostsNoPause(t *testing.T) {
	b := work.Backoff{First: time.Second, Max: time.Minute}
	if pause := b.After(1, true, "a"); pause != 0 {
		t.Errorf("the first loss costs %v", pause)
	}
	if lost, failed := b.After(2, true, "a"), b.After(1, false, "a"); lost != failed {
		t.Errorf("the second loss costs %v, the first failure %v", lost, failed)
	}
	if pause := (work.Backoff{First: -1, Max: time.Minute}).After(3, false, "a"); pause != 0 {
		t.Errorf("without pauses: %v", pause)
	}
	if !b.EndsRow(time.Minute) || b.EndsRow(59*time.Second) {
		t.Error("an attempt of a minute ends the row, a shorter one does not")
	}
}
