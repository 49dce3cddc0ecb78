package process

import (
	"context"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
)

// pollUntilGone is for kernels that can't tell: it looks a few times a second.
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
