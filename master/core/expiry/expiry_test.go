package expiry_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/master/core/expiry"
	"github.com/tenderhq/tender/master/registry"
)

const day = 24 * time.Hour

// TestForgettable: a proposer that was silent for a fortnight is forgotten, and none that was heard since.
func TestForgettable(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	state := &registry.State{Clients: map[string]registry.Client{"old": {Seen: now.Add(-13 * day)}, "new": {Seen: now.Add(-day)}}}
	past := expiry.Of(state, now.Add(-day/2))
	if before, is := past.Forgettable(state, now); is || !before.Equal(now.Add(-14*day)) {
		t.Errorf("what was before %v is forgotten: %v", before, is)
	}
	if _, is := past.Forgettable(state, now.Add(day+time.Second)); !is {
		t.Error("the proposer is remembered for more than a fortnight")
	}
}

// TestClockThatJumps: when a leader begins by a clock that is years ahead, nothing is forgotten for that.
func TestClockThatJumps(t *testing.T) {
	heard := time.Unix(1_000_000_000, 0)
	state := &registry.State{Clients: map[string]registry.Client{"c": {Seen: heard}}}
	ahead := heard.Add(1000 * day)
	past := expiry.Of(state, ahead)
	if before, is := past.Forgettable(state, ahead.Add(12*day)); is {
		t.Errorf("what was before %v is forgotten", before)
	}
	if _, is := past.Forgettable(state, ahead.Add(14*day)); !is {
		t.Error("the time of the leadership itself does not count")
	}
}
