package history

import "sync/atomic"

// Counts says how a history fares. It may be read from any goroutine.
type Counts struct {
	Notable, Routine atomic.Int64 // bytes that the rings take on the disk
	Lost             atomic.Int64 // events that were told and are not kept
}
