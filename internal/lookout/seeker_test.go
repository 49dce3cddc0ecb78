package lookout

import (
	"errors"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// TestSeekerWaitsAsLongAsItIsAsked: at least so long, whether it had a leader before or not, and not all at one moment.
func TestSeekerWaitsAsLongAsItIsAsked(t *testing.T) {
	const asked = 5 * time.Second
	later := api.E("agent.session", api.Unavailable, "", errors.New("very many agents come back at once")).RetryIn(asked)
	for _, held := range []bool{false, true} {
		pauses := make(map[time.Duration]bool)
		for range 50 {
			s := NewSeeker([]string{"a:1"})
			s.Within(asked / 2)
			if held {
				s.Found()
			}
			pause := s.Failed(later)
			if pause < asked || pause > asked*3/2 {
				t.Errorf("pauses for %v", pause)
			}
			pauses[pause] = true
		}
		if !held && len(pauses) < 2 {
			t.Error("all come back at one moment")
		}
	}
}

// TestSeekerTakesItsTurn: who had a leader and lost it waits for a part of what the leader
// said, once, whatever ended the session; who had none looks on as usual.
func TestSeekerTakesItsTurn(t *testing.T) {
	broken, moved := errors.New("the stream is broken"), wire.NotLeader("agent.session", "b:1")
	const spread = 10 * time.Second
	for _, test := range []struct {
		name   string
		within time.Duration
		err    error
		next   string // who is tried then, if that is certain
		longer bool   // than the usual pause, at least once
	}{
		{name: "few agents", err: broken},
		{name: "few agents, the next leader is known", err: moved, next: "b:1"},
		{name: "many agents", within: spread, err: broken, longer: true},
		{name: "many agents, the next leader is known", within: spread, err: moved, next: "b:1", longer: true},
	} {
		longest := time.Duration(0)
		for range 50 { // pauses are random
			s := NewSeeker([]string{"a:1"})
			s.Within(test.within)
			if pause := s.Failed(broken); pause > seekPauseFirst {
				t.Errorf("%s: %v before there ever was a leader", test.name, pause)
			}
			s.Found()
			pause := s.Failed(test.err)
			longest = max(longest, pause)
			if pause > max(test.within, seekPauseFirst) {
				t.Errorf("%s: a pause of %v", test.name, pause)
			}
			if next := s.Address(); test.next != "" && next != test.next {
				t.Errorf("%s: %s is next", test.name, next)
			}
			if pause := s.Failed(broken); pause > 2*seekPauseFirst {
				t.Errorf("%s: %v after the turn", test.name, pause)
			}
		}
		if longer := longest > 2*seekPauseFirst; longer != test.longer {
			t.Errorf("%s: the longest of 50 pauses is %v", test.name, longest)
		}
	}
}
