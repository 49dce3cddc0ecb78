package lookout

import (
	"errors"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// TestSeekerWaitsAsLongAsItIsAsked: the pause is at least as long as asked for, with and without an earlier leader, and
// it is random.
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

// TestSeekerTakesItsTurn: an agent that had a leader and lost it waits once for a random part of the time that the
// leader told, whatever ended the session. An agent without a leader searches as usual.
func TestSeekerTakesItsTurn(t *testing.T) {
	broken, moved := errors.New("the stream is broken"), wire.NotLeader("agent.session", "b:1")
	const spread = 10 * time.Second
	for _, test := range []struct {
		name   string
		within time.Duration
		err    error
		next   string // the master that is tried then, if that is certain
		longer bool   // at least one pause is longer than usual
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

// TestOneConnectionBringsAnAgentBack: whichever master an agent begins with, and whoever leads next, it needs one
// connection to come back if masters refuse at once when they do not lead. Without that it needs one and a half, as the
// table shows.
func TestOneConnectionBringsAnAgentBack(t *testing.T) {
	masters := []string{"a:1", "b:1", "c:1"}
	const dead, returns = "a:1", 600
	for _, test := range []struct {
		door        bool // masters refuse at the first message
		least, most float64
	}{{door: true, least: 1, most: 1}, {door: false, least: 1.35, most: 1.65}} {
		connections, refusals := 0, 0
		for i := range returns {
			leader := masters[1+i%2]
			s := NewSeeker(masters)
			s.Found()
			s.Failed(errors.New("the stream is broken"))
			for address := s.Address(); ; address = s.Address() {
				var err error
				switch {
				case address == dead:
					err = errors.New("nobody listens there")
				case address == leader:
					connections++
				case test.door && s.LeaderOnly():
					refusals++
					err = ErrNotLeading
				default:
					connections++
					err = wire.NotLeader("agent.session", leader)
				}
				if err == nil {
					break
				}
				if pause := s.Failed(err); pause > 0 && address != dead {
					t.Errorf("it waits for %v after %v", pause, err)
				}
			}
		}
		if each := float64(connections) / returns; each < test.least || each > test.most {
			t.Errorf("masters that say it at the door: %v; %.2f connections for a return and %d refusals, want %v to %v", test.door, each, refusals, test.least, test.most)
		}
	}
}

// TestWhoStandsFirstRefusesNobody: agents that have lost a leader ask the master first that stands for election before the
// others, so none is refused when that leads.
func TestWhoStandsFirstRefusesNobody(t *testing.T) {
	masters := []string{"a:1", "b:1", "c:1"}
	for lost, next := range map[string]string{"a:1": "b:1", "b:1": "a:1", "c:1": "a:1"} {
		s := NewSeeker(masters)
		for s.Address() != lost {
			s.Failed(errors.New("nobody listens there"))
		}
		s.Learn(masters)
		s.Found()
		s.Failed(errors.New("the stream is broken"))
		if s.Address() != next || !s.LeaderOnly() {
			t.Errorf("who has lost %s asks %s first, want %s", lost, s.Address(), next)
		}
	}
}

// TestWhoIsRefusedEverywhereAsksWhy: if nobody leads, or the leader is not among the known masters, a master that
// admits the agent tells it so, and it is not refused for ever.
func TestWhoIsRefusedEverywhereAsksWhy(t *testing.T) {
	s := NewSeeker([]string{"a:1", "b:1", "c:1"})
	for round := range 3 {
		for i := range 3 {
			if !s.LeaderOnly() {
				t.Fatalf("round %d: who was refused by %d asks without the condition", round, i)
			}
			err := ErrNotLeading
			if i == 1 {
				err = errors.New("nobody listens there")
			}
			if pause := s.Failed(err); pause == 0 && i == 2 {
				t.Errorf("round %d: all were asked in vain, and it asks on without a pause", round)
			}
			if s.WorthSaying(err) && i != 1 {
				t.Error("a refusal is worth a line")
			}
		}
		if s.LeaderOnly() {
			t.Fatalf("round %d: all were asked in vain, and it asks them again", round)
		}
		s.Failed(wire.NotLeader("agent.session", "d:1"))
		if next := s.Address(); next != "d:1" && round == 0 {
			t.Errorf("%s is next, and d:1 leads", next)
		}
	}
}
