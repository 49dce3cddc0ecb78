package protocol_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/protocol"
)

func TestRetryWait(t *testing.T) {
	const after = 2 * time.Second
	shortest, longest := time.Hour, time.Duration(0)
	for chance := range uint64(100) {
		wait := protocol.RetryWait(after, chance*uint64(after)/100)
		shortest, longest = min(shortest, wait), max(longest, wait)
	}
	if shortest != after || longest <= after*5/4 || longest > after*3/2 {
		t.Errorf("waits from %v to %v when %v is asked for", shortest, longest, after)
	}
	if wait := protocol.RetryWait(0, 7); wait != 0 {
		t.Errorf("waits %v when nothing is asked for", wait)
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		failures int
		bound    time.Duration
	}{
		{0, 20 * time.Millisecond}, {1, 40 * time.Millisecond}, {5, 640 * time.Millisecond},
		{6, time.Second}, {10, time.Second}, {1000, time.Second},
	} {
		least := protocol.Backoff(c.failures, func(int64) int64 { return 0 })
		most := protocol.Backoff(c.failures, func(below int64) int64 { return below - 1 })
		if least <= 0 || least > time.Millisecond || most != c.bound {
			t.Errorf("after %d failures and one more: from %v to %v, want at most %v", c.failures, least, most, c.bound)
		}
	}
}
