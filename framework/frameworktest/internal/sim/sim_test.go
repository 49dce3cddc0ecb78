package sim

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	countFlag  = flag.Uint64("count", 0, "how many seeds; default: some hundred")
	allFlag    = flag.Bool("all", false, "go on behind a seed that fails, and list all that do")
	plainFlag  = flag.Bool("unexplained", false, "end with the first seed that fails, without the search for what it takes")
	forFlag    = flag.Duration("for", 0, "go on with new seeds for so long; overrides the number of seeds")
)

// TestSeeds: whatever breaks, the promises hold, and when everything is whole again it comes to rest. Replay a seed
// with -seed.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		replay(t, NewPlan(*seedFlag))
		return
	}
	began := time.Now()
	played := play(*fromFlag, began)
	for _, one := range played.failed {
		if !*allFlag && !*plainFlag {
			explain(t, NewPlan(one.seed), one.err)
		}
		t.Errorf("seed %d: %v", one.seed, one.err)
	}
	if *countFlag == 0 && *forFlag == 0 && played.seeds >= 300 {
		checkCoverage(t, played.coverage)
	}
	if testing.Verbose() {
		t.Logf("what the leader was led into:\n%s", played.coverage.Table())
	}
	t.Logf("%d seeds from %d on, %d tasks, %d steps, %.0f a second", played.seeds, *fromFlag, played.tasks, played.steps,
		float64(played.steps)/time.Since(began).Seconds())
}

// played is what came of many seeds.
type played struct {
	sync.Mutex
	next, seeds  uint64
	steps, tasks int
	coverage     Coverage
	failed       []failure // by seed
}

type failure struct {
	seed uint64
	err  error
}

// play plays seeds on all processors. Unless all are wanted, it stops after one that fails, and then the lowest seed
// that fails comes first.
func play(from uint64, began time.Time) *played {
	p := &played{next: from, coverage: Coverage{}}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed, is := p.take(from, began); is; seed, is = p.take(from, began) {
				p.count(seed, runSeed(seed))
			}
		})
	}
	workers.Wait()
	slices.SortFunc(p.failed, func(a, b failure) int { return cmp.Compare(a.seed, b.seed) })
	return p
}

// runSeed has a panic say in which seed it was.
func runSeed(seed uint64) Outcome {
	defer func() {
		if why := recover(); why != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, why))
		}
	}()
	return Run(NewPlan(seed), nil)
}

func (p *played) take(from uint64, began time.Time) (seed uint64, is bool) {
	p.Lock()
	defer p.Unlock()
	if len(p.failed) > 0 && !*allFlag || !more(p.next-from, began) {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

func (p *played) count(seed uint64, outcome Outcome) {
	p.Lock()
	defer p.Unlock()
	p.seeds++
	p.coverage.add(outcome.Coverage)
	p.steps, p.tasks = p.steps+outcome.Steps, p.tasks+outcome.Tasks
	if outcome.Err != nil {
		p.failed = append(p.failed, failure{seed, outcome.Err})
	}
}

func more(seeds uint64, began time.Time) bool {
	switch {
	case *countFlag > 0:
		return seeds < *countFlag
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
