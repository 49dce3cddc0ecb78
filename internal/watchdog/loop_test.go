package watchdog_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/internal/watchdog"
)

// TestAStuckRoundIsNoticed: a round that does not end is noticed, with the place in the code. Rounds that end are not,
// however many there are, nor is waiting for something to do.
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
		evidence := loop.Watch(t.Context(), constant)
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
		if again := loop.Watch(ctx, constant); again != "" {
			t.Errorf("it waits, and is taken for stuck: %s", again)
		}
	})
}

func constant() time.Duration { return 15 * time.Second }

// TestTheLimitMayChange: a round that has begun under a short limit is given the long limit that holds now.
func TestTheLimitMayChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loop watchdog.Loop
		release, began := make(chan struct{}), time.Now()
		go func() {
			loop.Begin()
			waitsInVain(release)
			loop.End()
		}()
		loop.Watch(t.Context(), func() time.Duration {
			if time.Since(began) < 4*time.Second {
				return 6 * time.Second
			}
			return time.Minute
		})
		if took := time.Since(began); took < time.Minute || took > 80*time.Second {
			t.Errorf("noticed after %v, and a round may take a minute", took)
		}
		close(release)
	})
}

func waitsInVain(release <-chan struct{}) { <-release }
