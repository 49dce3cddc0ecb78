package allowance

import (
	"testing"
	"time"
)

func TestAllowance(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(Rate{PerSecond: 100, Most: 300, First: 50}, now)
	take := func(amount float64, wait time.Duration) {
		t.Helper()
		if got := a.Take(now, amount); got != wait {
			t.Errorf("%v more are held for %v, not %v", amount, got, wait)
		}
	}
	take(50, 0)
	take(100, time.Second)
	take(100, 2*time.Second) // after the one before
	now = now.Add(2 * time.Second)
	take(0, 0)
	now = now.Add(time.Hour)
	take(301, 10*time.Millisecond) // no more than 300 is kept
	if a.Full(now) || !a.Full(now.Add(4*time.Second)) {
		t.Error("it is full when nothing of it is used, and only then")
	}
	now = now.Add(-time.Hour) // a clock that goes back takes nothing away
	take(0, 0)
}

// TestCharged: what is charged after the fact delays nobody for longer than a second, and does not reduce what is owed.
func TestCharged(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(Rate{PerSecond: 100, Most: 300, First: 300}, now)
	a.Charge(now, 300)
	if wait := a.Take(now, 0); wait != 0 {
		t.Errorf("nothing is owed, and it is held for %v", wait)
	}
	a.Charge(now, 1e9)
	if wait := a.Take(now, 0); wait != time.Second {
		t.Errorf("it is held for %v", wait)
	}
	a.Take(now, 400)
	a.Charge(now, 1e9)
	if wait := a.Take(now, 0); wait != 5*time.Second {
		t.Errorf("it owes five seconds and is held for %v", wait)
	}
	var none Allowance
	if none.Charge(now, 1e9); none.Take(now, 1e9) != 0 || !none.Full(now) {
		t.Error("who has no limit is held")
	}
}
