package priority_test

import (
	"os"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/allocator/priority"
)

func fresh(t *testing.T) func() allocator.Allocator {
	return func() allocator.Allocator {
		policy, err := priority.New(allocator.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
}

func TestSuite(t *testing.T) { allocatortest.Suite(t, fresh(t)) }

// TestHistories runs the properties of the suite for a million steps.
func TestHistories(t *testing.T) {
	if os.Getenv("TENDER_TEST_LONG") == "" {
		t.Skip("TENDER_TEST_LONG plays a million steps")
	}
	allocatortest.Histories(t, fresh(t), 1_000_000)
}

func TestStrict(t *testing.T) { allocatortest.Strict(t, fresh(t)) }
