package work_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/work"
)

// paceOf returns a pace whose attempts took so long.
func paceOf(took time.Duration, attempts int) *work.Pace {
	p := &work.Pace{}
	for range attempts {
		p.Note(took)
	}
	return p
}

// TestStragglersAreTheLongest: who runs for more than the factor of the median gets a copy, the others are looked at
// when they would.
func TestStragglersAreTheLongest(t *testing.T) {
	now := time.Unix(1000, 0)
	p := paceOf(10*time.Second, 30)
	since := []time.Time{now.Add(-40 * time.Second), now.Add(-20 * time.Second), now.Add(-15 * time.Second)}
	if slow := p.Stragglers(now, 2, since, 100, 0); slow != 2 || p.Check != now.Add(5*time.Second) {
		t.Errorf("%d slow, next look at %v; want 2, and the third in 5s", slow, p.Check.Sub(now))
	}
	if p.Asks(now.Add(4*time.Second), 30, 33, false) || !p.Asks(now.Add(5*time.Second), 30, 33, false) {
		t.Error("it is to be looked at in 5 s, and not before")
	}
}

// TestCopiesAreATenth: copies are at most a tenth of what runs and at least one, and while there are so many nobody
// looks more often than each quarter of the median.
func TestCopiesAreATenth(t *testing.T) {
	now := time.Unix(1000, 0)
	late := make([]time.Time, 50)
	for i := range late {
		late[i] = now.Add(-time.Hour)
	}
	for _, c := range []struct{ running, copies, slow int }{{50, 0, 5}, {50, 3, 2}, {51, 0, 6}, {3, 0, 1}, {50, 9, 0}} {
		p := paceOf(8*time.Minute, 150)
		if slow := p.Stragglers(now, 2, late, c.running, c.copies); slow != c.slow || p.Check != now.Add(2*time.Minute) {
			t.Errorf("%d running, %d copies: %d more, want %d; next look in %v", c.running, c.copies, slow, c.slow, p.Check.Sub(now))
		}
	}
}

// TestPaceIsOfTheLatest: the median forgets what is long ago.
func TestPaceIsOfTheLatest(t *testing.T) {
	p := paceOf(time.Minute, 256)
	for range 256 {
		p.Note(time.Second)
	}
	if p.Median() != time.Second || len(p.Took) != 256 {
		t.Errorf("median %v of %d", p.Median(), len(p.Took))
	}
}

// TestNobodyIsSlowTooEarly: with too few ends, with less than three quarters done or with something that waits, nobody
// looks.
func TestNobodyIsSlowTooEarly(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		ends, done, total int
		waits, asks       bool
	}{{2, 2, 2, false, false}, {3, 3, 4, false, true}, {3, 3, 5, false, false}, {3, 3, 4, true, false}} {
		if asks := paceOf(time.Second, c.ends).Asks(now, c.done, c.total, c.waits); asks != c.asks {
			t.Errorf("%+v: %t", c, asks)
		}
	}
}
