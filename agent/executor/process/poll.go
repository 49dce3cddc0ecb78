package process

import (
	"context"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
)

// pollUntilGone blocks until the process has ended (true) or the context (false). It looks a few times a second, for
// kernels that can't report the end of a process that is not our child.
func pollUntilGone(ctx context.Context, id core.Process) bool {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for proc.Alive(id.PID, id.Start) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
