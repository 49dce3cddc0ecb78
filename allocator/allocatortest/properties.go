package allocatortest

import (
	"testing"

	"github.com/tenderhq/tender/allocator"
)

func properties(t *testing.T, fresh func() allocator.Allocator)  {}
func determinism(t *testing.T, fresh func() allocator.Allocator) {}
