package clock_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/clock"
)

// TestAt: a clock that is set shows another time, and no time has passed.
func TestAt(t *testing.T) {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 7, time.UTC)
	before := clock.At(wall, time.Hour)
	after := clock.At(wall.Add(time.Minute-9*time.Hour), time.Hour+time.Minute)
	if passed, shown := after.Sub(before), after.Round(0).Sub(before.Round(0)); passed != time.Minute || shown != time.Minute-9*time.Hour {
		t.Errorf("%v have passed, and the clock shows %v more", passed, shown)
	}
	if text := before.Round(0).String(); text != "2026-01-01 00:00:00.000000007 +0000 UTC" {
		t.Errorf("the clock shows %s", text)
	}
}
