// Package allocatortest holds the suite that every allocator passes: stories that show
// the rules one by one, and properties over random histories. A policy of your own runs
// it from its test:
//
//	func TestSuite(t *testing.T) {
//		allocatortest.Suite(t, func() allocator.Allocator { return mine.New() })
//	}
//
// A server of a policy in another process runs it through the wire: remote.NewPrompt
// gives an allocator for it, and examples/remote-allocator shows how.
//
// The suite asks for nothing that is one policy's own. A policy that is fair in the sense
// of DRF passes [Fair] as well, one of strict priorities [Strict]; tests of what is only
// yours use [Cluster] directly. [Histories] runs the properties for as long as you like.
package allocatortest

import (
	"slices"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"pgregory.net/rapid"
)

// Suite runs all stories and properties, each on a fresh allocator.
func Suite(t *testing.T, fresh func() allocator.Allocator) {
	for _, story := range slices.Concat(stories, filterStories) {
		t.Run(story.name, func(t *testing.T) { story.tell(NewCluster(t, fresh())) })
	}
	t.Run("properties", func(t *testing.T) { properties(t, fresh) })
	t.Run("nobody starves", func(t *testing.T) { starvation(t, fresh) })
	t.Run("a guarantee is there when it is wanted", func(t *testing.T) { guaranteed(t, fresh) })
	t.Run("a guarantee of one kind brings no more of another", func(t *testing.T) { guaranteedByKind(t, fresh) })
	t.Run("what is spread is even", func(t *testing.T) { spreads(t, fresh) })
	t.Run("same calls, same offers", func(t *testing.T) { determinism(t, fresh) })
}

// Histories runs random histories of so many steps in all.
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
