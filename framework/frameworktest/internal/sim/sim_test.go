package sim

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/tenderhq/tender/allocator/fairshare" // the policies that plans name
	_ "github.com/tenderhq/tender/allocator/priority"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "replay this one seed and print its story")
	shrinkFlag = flag.Bool("shrink", false, "with -seed: leave out the faults that it does not need to fail")
	fromFlag   = flag.Uint64("from", 1, "the first seed")
	forFlag    = flag.Duration("for", 0, "go on with new seeds for so long; default: some hundred seeds")
)

// TestSeeds: whatever breaks, the promises hold, and when everything is whole again it comes to rest. Replay a seed
// with -seed.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		replay(t, NewPlan(*seedFlag))
		return
	}
	began := time.Now()
	steps, tasks, seeds := 0, 0, uint64(0)
	for seed := *fromFlag; more(seeds, began); seed++ {
		outcome := Run(NewPlan(seed), nil)
		steps, tasks, seeds = steps+outcome.Steps, tasks+outcome.Tasks, seeds+1
		if outcome.Err != nil {
			explain(t, NewPlan(seed), outcome.Err)
		}
	}
	t.Logf("%d seeds from %d on, %d tasks, %d steps, %.0f a second", seeds, *fromFlag, tasks, steps, float64(steps)/time.Since(began).Seconds())
}

func more(seeds uint64, began time.Time) bool {
	switch {
	case *forFlag > 0:
		return time.Since(began) < *forFlag
	case testing.Short():
		return seeds < seedsMax/4
	}
	return seeds < seedsMax
}

// explain prints everything that is needed to see the failure again, and ends the test.
func explain(t *testing.T, plan chaos.Plan, err error) {
	t.Helper()
	shrunk := Shrink(plan)
	var story strings.Builder
	outcome := Run(shrunk, &story)
	lines := strings.Split(strings.TrimSpace(story.String()), "\n")
	t.Logf("%d of its %d faults are enough: %s%s\n%v", len(shrunk.Faults), len(plan.Faults), shrunk,
		strings.Join(lines[max(0, len(lines)-40):], "\n"), outcome.Err)
	t.Fatalf("seed %d: %v\nreplay with: make sim SEED=%d, or SEED='%d -shrink' for the shorter story", plan.Seed, err, plan.Seed, plan.Seed)
}

func replay(t *testing.T, plan chaos.Plan) {
	if *shrinkFlag {
		plan = Shrink(plan)
	}
	var story strings.Builder
	outcome := Run(plan, &story)
	fmt.Printf("%s%s", plan, story.String())
	fmt.Printf("this story has %d lines and the checksum %x\n", strings.Count(story.String(), "\n"), sha256.Sum256([]byte(story.String())))
	if outcome.Err != nil {
		t.Error(outcome.Err)
	}
}

// TestSameSeedSameStory: a seed tells the same story each time, byte for byte. The story does not depend on whether it
// is written down.
func TestSameSeedSameStory(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		var once, again strings.Builder
		one, two := Run(NewPlan(seed), &once), Run(NewPlan(seed), &again)
		if once.String() != again.String() {
			t.Errorf("seed %d tells two stories of %d and %d bytes", seed, once.Len(), again.Len())
		}
		if unread := Run(NewPlan(seed), nil); one.Steps != two.Steps || one.Steps != unread.Steps || one.Tasks != unread.Tasks {
			t.Errorf("seed %d takes %d steps for a reader and %d without one", seed, one.Steps, unread.Steps)
		}
		if once.Len() == 0 || one.Tasks == 0 {
			t.Errorf("seed %d tells nothing", seed)
		}
	}
}
