package wallclock_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/wallclock"
)

// TestMoment: while nobody sets the clock, a time of the wall clock is as far away as the clock says, and a past one
// has come. What follows when somebody sets the clock is in the transcripts of the core, whose world has such a clock.
func TestMoment(t *testing.T) {
	began := time.Now()
	calendar := wallclock.Began(began)
	now := began.Add(time.Hour)
	if by := calendar.Look(now); by != 0 {
		t.Errorf("the clock was set by %v", by)
	}
	if at := calendar.Moment(now, now.Round(0).Add(time.Minute)); at.Sub(now) != time.Minute {
		t.Errorf("it comes in %v", at.Sub(now))
	}
	if at := calendar.Moment(now, now.Round(0).Add(-time.Minute)); at.After(now) {
		t.Errorf("what is past comes in %v", at.Sub(now))
	}
	if until := wallclock.Until(now, now.Round(0).Add(time.Hour)); until != time.Hour {
		t.Errorf("it is %v", until)
	}
}
