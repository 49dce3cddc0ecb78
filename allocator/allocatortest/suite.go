// Package allocatortest holds the suite that every allocator passes: stories that show
// the rules one by one, and properties over random histories. A policy of your own runs
// it from its test:
//
//	func TestSuite(t *testing.T) {
//		allocatortest.Suite(t, func() allocator.Allocator { return mine.New() })
//	}
//
// It asks for nothing that is one policy's own: those tests use [Cluster] directly.
package allocatortest

import (
	"testing"

	"github.com/tenderhq/tender/allocator"
)

// Suite runs all stories and properties, each on a fresh allocator.
func Suite(t *testing.T, fresh func() allocator.Allocator) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) { story.tell(NewCluster(t, fresh())) })
	}
	t.Run("properties", func(t *testing.T) { properties(t, fresh) })
	t.Run("same calls, same offers", func(t *testing.T) { determinism(t, fresh) })
}
