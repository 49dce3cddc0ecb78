package core_test

import (
	"github.com/tenderhq/tender/allocator"
	_ "github.com/tenderhq/tender/allocator/fairshare" // the policies that stories name
	_ "github.com/tenderhq/tender/allocator/priority"
)

// policyNamed makes real policies of a name.
func policyNamed(name string) func() allocator.Allocator {
	return func() allocator.Allocator {
		policy, err := allocator.Make(name, allocator.Config{})
		if err != nil {
			panic(err)
		}
		return policy
	}
}
