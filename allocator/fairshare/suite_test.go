package fairshare_test

import (
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/allocator/fairshare"
)

func fresh(t *testing.T) func() allocator.Allocator {
	return func() allocator.Allocator {
		policy, err := fairshare.New(allocator.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
}

func TestSuite(t *testing.T) { allocatortest.Suite(t, fresh(t)) }
