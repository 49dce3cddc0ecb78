package hostile

import (
	"context"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/pause"
)

// TestBusyWorksUntilItsEnd: Busy uses processors, and all of its threads have ended when it returns.
func TestBusyWorksUntilItsEnd(t *testing.T) {
	const enough = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	had := processorTime()
	used := make(chan time.Duration)
	go func() { used <- Busy(ctx, 3, 2) }()
	for processorTime()-had < enough { // the test itself uses next to nothing
		pause.For(t.Context(), busyRest)
	}
	cancel()
	if used := <-used; used < enough/2 {
		t.Errorf("it has used %v", used)
	}
}
