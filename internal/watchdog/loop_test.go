package watchdog_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/internal/watchdog"
)

// TestAStuckRoundIsNoticed: with the place where it is; rounds that end are not, however
// many there are, nor waiting for something to do.
func TestAStuckRoundIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loop watchdog.Loop
		release := make(chan struct{})
		go func() {
			for range 100 {
				loop.Begin()
				<-time.After(time.Second)
				loop.End()
			}
			<-time.After(time.Hour)
			loop.Begin()
			waitsInVain(release)
			loop.End()
		}()
		began := time.Now()
		evidence := loop.Watch(t.Context(), 15*time.Second)
		took := time.Since(began) - time.Hour - 100*time.Second
		if took < 15*time.Second || took > 20*time.Second {
			t.Errorf("noticed %v after it began", took)
		}
		if !strings.Contains(evidence, "waitsInVain") || !loop.Stuck() {
			t.Errorf("stuck: %v, evidence: %s", loop.Stuck(), evidence)
		}
		close(release)
		synctest.Wait()
		if loop.Stuck() {
			t.Error("it has come round")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if again := loop.Watch(ctx, 15*time.Second); again != "" {
			t.Errorf("it waits, and is taken for stuck: %s", again)
		}
	})
}

func waitsInVain(release <-chan struct{}) { <-release }
