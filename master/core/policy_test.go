package core_test

import (
	"github.com/tenderhq/tender/allocator"
	_ "github.com/tenderhq/tender/allocator/fairshare"
)

// fairshare is the real policy.
func fairshare() allocator.Allocator {
	policy, err := allocator.Make("fairshare", allocator.Config{})
	if err != nil {
		panic(err)
	}
	return policy
}
