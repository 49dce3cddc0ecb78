package protocol

import "time"

// RetryWait returns how long to wait after being asked not to try again for that long. It adds a random part of up to
// half of it, so that many who were refused together do not come back together.
func RetryWait(after time.Duration, chance uint64) time.Duration {
	return after + time.Duration(chance%uint64(max(after, 0)/2+1))
}

const (
	// backoffFirst is the longest wait after the first failure.
	backoffFirst = 20 * time.Millisecond
	// BackoffLast is the longest wait after any failure.
	BackoffLast = time.Second
	// doublingsMax doublings exceed BackoffLast by far; many more would overflow.
	doublingsMax = 10
)

// Backoff returns how long to wait before the next try to reach somebody: a random time up to a limit that doubles with
// each earlier failure, so that many who lost the same peer come back spread out. chance returns a random number below
// its argument, as rand.Int64N does.
func Backoff(failuresBefore int, chance func(below int64) int64) time.Duration {
	bound := min(backoffFirst<<min(failuresBefore, doublingsMax), BackoffLast)
	return time.Duration(chance(int64(bound))) + 1
}
