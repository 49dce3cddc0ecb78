//go:build !linux

package process

import (
	"context"

	"github.com/tenderhq/tender/agent/core"
)

// watch blocks until the process has ended (true) or the context (false).
func watch(ctx context.Context, id core.Process) bool { return pollUntilGone(ctx, id) }
