// Package pause waits for some time, or until a context ends. It is for loops that retry.
package pause

import (
	"context"
	"time"
)

// Soonest is what a timer is set to that shall go off at once. It is not 0: in a synctest bubble a timer that is due when
// a select looks at it is run by that goroutine, in a race context that all goroutines of the bubble share, and two
// that do so at the same moment crash the race detector (seen with go1.26.8).
const Soonest = time.Nanosecond

// For returns after the time (true), or as soon as ctx ends (false).
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, Soonest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
