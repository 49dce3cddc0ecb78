// Package pause lets time pass, for as long as a context lives. It is for loops that ask again.
package pause

import (
	"context"
	"time"
)

// For returns after the time (true), or as soon as ctx ends (false).
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
