// Package allocatortest has the suite that every allocator must pass: stories that show the rules one by one, and
// properties over random histories. A policy of your own runs the suite from its test:
//
//	func TestSuite(t *testing.T) {
//		allocatortest.Suite(t, func() allocator.Allocator { return mine.New() })
//	}
//
// For a policy that a server in another process serves, remote.NewPrompt gives an allocator that runs the suite over
// the wire; examples/remote-allocator shows how.
//
// The suite demands nothing that only one policy promises. A policy that is fair in the sense of DRF passes [Fair] as
// well, and one with strict priorities passes [Strict]. Tests of what only your policy promises use [Cluster] directly.
// [Histories] runs the properties for as long as you like.
package allocatortest

import (
	"slices"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"pgregory.net/rapid"
)

// The parts of the suite which say that equals take turns, and that a framework with a demand gets what its equal
// keeps. A policy that puts equals in an order leaves these parts out.
const (
	EqualsTakeTurns = "equals take turns"
	NoEqualStarves  = "among equals no demand starves"
	NobodyStarves   = "nobody starves"
	KeptIsAskedBack = "what is kept is asked back for stated demand"
)

// Suite runs all stories and properties, each on a fresh allocator. Parts that a policy breaks on purpose are left out
// by their names. A policy that puts equals in an order, so that they do not take turns, names [EqualsTakeTurns],
// [NoEqualStarves], [NobodyStarves] and [KeptIsAskedBack].
func Suite(t *testing.T, fresh func() allocator.Allocator, leaveOut ...string) {
	t.Helper()
	var names []string
	run := func(name string, test func(*testing.T)) {
		names = append(names, name)
		if !slices.Contains(leaveOut, name) {
			t.Run(name, test)
		}
	}
	for _, story := range slices.Concat(told(), stories) {
		run(story.name, func(t *testing.T) { story.tell(NewCluster(t, fresh())) })
	}
	run("properties", func(t *testing.T) { properties(t, fresh) })
	run(NobodyStarves, func(t *testing.T) { starvation(t, fresh) })
	run("a guarantee is there when it is wanted", func(t *testing.T) { guaranteed(t, fresh) })
	run("a guarantee of one kind brings no more of another", func(t *testing.T) { guaranteedByKind(t, fresh) })
	run("what is spread is even", func(t *testing.T) { spreads(t, fresh) })
	run("what everybody keeps goes round ever less often", func(t *testing.T) { keptByAll(t, fresh) })
	run("same calls, same offers", func(t *testing.T) { determinism(t, fresh) })
	for _, name := range leaveOut {
		if !slices.Contains(names, name) {
			t.Errorf("no part of the suite is called %q; there are %q", name, names)
		}
	}
}

// Histories runs random histories, until they have had at least this many steps together.
func Histories(t *testing.T, fresh func() allocator.Allocator, steps int) {
	for done := 0; done < steps && !t.Failed(); {
		rapid.Check(t, func(t *rapid.T) {
			h := &history{Cluster: NewCluster(quiet{t}, fresh()), t: t}
			n := rapid.IntRange(10, 120).Draw(t, "steps")
			done += n
			h.run(n)
		})
	}
}
