package protocol

import "time"

// RetryWait is how long who was asked not to try again for so long waits: up to half of it longer, by chance, so that
// many who were refused together do not come together.
func RetryWait(after time.Duration, chance uint64) time.Duration {
	return after + time.Duration(chance%uint64(max(after, 0)/2+1))
}

const (
	// backoffFirst bounds the first wait of Backoff.
	backoffFirst = 20 * time.Millisecond
	// BackoffLast bounds all of them.
	BackoffLast = time.Second
	// doublingsMax reach BackoffLast by far; some more would overflow.
	doublingsMax = 10
)

// Backoff is how long who has failed to reach somebody waits before the next try: anything from nothing to a bound that
// doubles with each failure before this one, so that many who lost the same peer come back spread. The chance is a
// number below the one it is given, as rand.Int64N draws it.
func Backoff(failuresBefore int, chance func(below int64) int64) time.Duration {
	bound := min(backoffFirst<<min(failuresBefore, doublingsMax), BackoffLast)
	return time.Duration(chance(int64(bound))) + 1
}
