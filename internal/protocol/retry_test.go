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
