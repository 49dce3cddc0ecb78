package protocol

import "time"

// RetryWait is how long who was asked not to try again for so long waits: up to half of it longer, by chance, so that
// many who were refused together do not come together.
func RetryWait(after time.Duration, chance uint64) time.Duration {
	return after + time.Duration(chance%uint64(max(after, 0)/2+1))
}
