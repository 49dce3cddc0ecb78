package leadersearch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/value"
)

var (
	errGone    = errors.New("nobody listens there")
	errFollows = api.E("master.session", api.NotLeader, "", errors.New("it follows"))
	errLater   = api.E("master.session", api.Limit, "", errors.New("too many")).RetryIn(1)
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// TestEachMasterIsAskedOnceARound: whatever was configured and learned, each master is asked once a round, the last
// leader first. There is a wait only between rounds. InOrder asks in the given order.
func TestEachMasterIsAskedOnceARound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.SampledFrom([]string{"a:1", "b:1", "c:1", "d:1", "e:1"})
		configured, learned := rapid.SliceOfN(address, 1, 4).Draw(t, "configured"), rapid.SliceOf(address).Draw(t, "learned")
		leader, inOrder := rapid.SampledFrom([]string{"", "a:1", "f:1"}).Draw(t, "leader"), rapid.Bool().Draw(t, "in order")
		s := New(configured)
		if inOrder {
			s = InOrder(configured)
		}
		s.Found(leader, learned)
		random := seeded(rapid.Uint64().Draw(t, "seed"))
		want := s.Masters()
		if leader != "" && !slices.Contains(want, leader) {
			want = append(want, leader)
		}
		for round := 1; round <= 3; round++ {
			var asked []string
			for i := range want {
				wait := s.Next(random)
				if first := i == 0 && round > 1; (wait > 0) != first || wait > protocol.BackoffLast {
					t.Fatalf("round %d: a wait of %v before number %d", round, wait, i)
				}
				asked = append(asked, s.Address())
				s.Failed(errGone, "")
			}
			if s.Rounds() != round {
				t.Fatalf("it counts %d rounds, not %d", s.Rounds(), round)
			}
			if leader != "" && asked[0] != leader {
				t.Fatalf("it asks %v, and %s led last", asked, leader)
			}
			named := slices.DeleteFunc(slices.Clone(want), func(a string) bool { return a == leader })
			if rest := slices.DeleteFunc(slices.Clone(asked), func(a string) bool { return a == leader }); inOrder && !slices.Equal(rest, named) {
				t.Fatalf("it asks %v, named were %v", asked, want)
			}
			slices.Sort(asked)
			if all := slices.Sorted(slices.Values(want)); !slices.Equal(asked, all) {
				t.Fatalf("it asks %v, known are %v", asked, all)
			}
		}
	})
}

// TestNoRoundIsEndless: whatever masters answer, a round asks each of them at least once, makes at most redirectsMax
// more requests, and asks none again that has failed in it.
func TestNoRoundIsEndless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		configured := []string{"a:1", "b:1", "c:1"}
		s, random, failed := New(configured), seeded(rapid.Uint64().Draw(t, "seed")), []string{}
		var asked []string
		for s.Next(random); s.Rounds() == 1; s.Next(random) {
			if slices.Contains(failed, s.Address()) {
				t.Fatalf("%s has failed, and is asked again: %v", s.Address(), asked)
			}
			asked = append(asked, s.Address())
			if rapid.Bool().Draw(t, "fails") {
				s.Failed(errGone, "")
				failed = append(failed, s.Address())
				continue
			}
			leader := rapid.SampledFrom([]string{"", "a:1", "b:1", "c:1", "d:1", "e:1"}).Draw(t, "leader")
			if s.Failed(errFollows, leader) {
				before := value.Clone(s)
				if wait := before.Next(seeded(0)); wait != 0 || before.Address() != leader {
					t.Fatalf("a follower named %s, and %s is asked after %v", leader, before.Address(), wait)
				}
			}
		}
		if len(asked) > len(configured)+redirectsMax {
			t.Fatalf("one round asks %v", asked)
		}
		for _, address := range configured {
			if !slices.Contains(asked, address) {
				t.Fatalf("one round asks %v, and not %s", asked, address)
			}
		}
	})
}

// TestARoundBeginsAnew: a master that failed in one round may be named in the next one, and redirects are followed
// again. A search that was settled does not wait.
func TestARoundBeginsAnew(t *testing.T) {
	for _, settled := range []bool{false, true} {
		s, random := New([]string{"a:1"}), seeded(1)
		s.Next(random)
		for range redirectsMax {
			if !s.Failed(errFollows, "b:1") {
				t.Fatal("a follower is not believed")
			}
			s.Next(random)
		}
		if s.Failed(errGone, ""); s.Failed(errFollows, "c:1") || s.Failed(errFollows, "b:1") {
			t.Fatal("followers lead it around")
		}
		if settled {
			s.Settle()
		}
		if wait := s.Next(random); (wait == 0) != settled || s.Address() != "a:1" {
			t.Fatalf("settled=%t: %s is asked after %v", settled, s.Address(), wait)
		}
		if !s.Failed(errFollows, "b:1") {
			t.Fatalf("settled=%t: a follower is not believed in another round", settled)
		}
	}
}

// TestWhoStandsFirstIsAskedFirst: when a leader is lost, the others are asked in the order in which it has named them, and
// it is asked last. The round after that begins anywhere again.
func TestWhoStandsFirstIsAskedFirst(t *testing.T) {
	firsts := map[string]bool{}
	for seed := range uint64(50) {
		s, random := New([]string{"c:1", "d:1"}), seeded(seed)
		for s.Next(random); s.Address() != "c:1"; s.Next(random) {
			s.Failed(errGone, "")
		}
		s.Learn([]string{"a:1", "b:1", "c:1"})
		s.Lost()
		var asked []string
		for range 4 {
			if wait := s.Next(random); wait > 0 {
				t.Errorf("a wait of %v within a round", wait)
			}
			asked = append(asked, s.Address())
			s.Failed(errGone, "")
		}
		if want := []string{"a:1", "b:1", "d:1", "c:1"}; !slices.Equal(asked, want) {
			t.Fatalf("it asks %v, want %v", asked, want)
		}
		s.Next(random)
		firsts[s.Address()] = true
	}
	if len(firsts) != 4 {
		t.Errorf("rounds without a lost leader begin with %v only", firsts)
	}
}

// TestWhoSaysWhenToComeBackHasAnswered: a follower may name such a master as the leader.
func TestWhoSaysWhenToComeBackHasAnswered(t *testing.T) {
	for err, followed := range map[error]bool{errGone: false, errLater: true, errFollows: true} {
		s, random := InOrder([]string{"a:1", "b:1"}), seeded(1)
		s.Next(random)
		s.Failed(err, "")
		s.Next(random)
		if s.Failed(errFollows, "a:1") != followed {
			t.Errorf("after %q a follower's word is followed: %t", err, !followed)
		}
	}
}

// TestWhoIsToBeAskedAgainIsNext: such a master is asked next, and the others follow once.
func TestWhoIsToBeAskedAgainIsNext(t *testing.T) {
	s, random := InOrder([]string{"a:1", "b:1"}), seeded(1)
	var asked []string
	for range 3 {
		s.Next(random)
		if asked = append(asked, s.Address()); len(asked) == 1 {
			s.Again()
		}
	}
	if want := []string{"a:1", "a:1", "b:1"}; !slices.Equal(asked, want) || s.Rounds() != 1 {
		t.Errorf("it asked %v in %d rounds, want %v", asked, s.Rounds(), want)
	}
}

// TestWhatIsLearnedIsReplaced: learned masters are replaced and limited in number, configured ones stay, and an empty
// list changes nothing.
func TestWhatIsLearnedIsReplaced(t *testing.T) {
	s := New([]string{"a:1", "a:1", "b:1"})
	var many []string
	for i := range 2 * learnedMax {
		many = append(many, fmt.Sprintf("m%d:1", i))
	}
	for _, step := range []struct {
		learned, want []string
	}{
		{nil, []string{"a:1", "b:1"}},
		{[]string{"c:1", "", "b:1"}, []string{"a:1", "b:1", "c:1"}},
		{[]string{"d:1"}, []string{"a:1", "b:1", "d:1"}},
		{nil, []string{"a:1", "b:1", "d:1"}},
		{many, append([]string{"a:1", "b:1"}, many[:learnedMax]...)},
	} {
		s.Learn(step.learned)
		if got := s.Masters(); !slices.Equal(got, step.want) {
			t.Errorf("after %v it knows %v, want %v", step.learned, got, step.want)
		}
	}
}

// TestACloneGoesOnAlike: a clone of a search chooses the same as its original, because a search is a value.
func TestACloneGoesOnAlike(t *testing.T) {
	s := New([]string{"a:1", "b:1", "c:1"})
	s.Next(seeded(1))
	s.Failed(errFollows, "d:1")
	clone := value.Clone(s)
	for _, one := range []*Search{&s, &clone} {
		random := seeded(2)
		for range 7 {
			one.Next(random)
		}
	}
	if !reflect.DeepEqual(s, clone) {
		t.Errorf("%+v and its clone %+v", s, clone)
	}
}
