package frameworktest_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/testing/clerks"
	"github.com/tenderhq/tender/internal/testing/history"
)

// TestStoreIsLinearizable: whatever happens to masters and network, there is an order of the operations in which each
// of them has the answer that it got. If none is found in time, the test fails.
func TestStoreIsLinearizable(t *testing.T) {
	seeds := uint64(3)
	switch {
	case os.Getenv("TENDER_TEST_LONG") != "":
		seeds = 100
	case testing.Short():
		seeds = 1
	}
	first := uint64(1)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, *seedFlag
	}
	for seed := first; seed <= seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			if err := history.Judge(storeHistory(t, seed)); err != nil {
				t.Errorf("%v; replay with -seed %d", err, seed)
			}
		})
	}
}

// storeHistory returns what the goroutines of one scheduler asked and were answered during a chaos of masters and
// links.
func storeHistory(t *testing.T, seed uint64) []history.Event {
	var mu sync.Mutex
	var events []history.Event
	unknown := 0
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 1, Latency: 5 * time.Millisecond, Seed: seed}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "store"}, &crew{})
		store := f.Client().Store()
		var order atomic.Int64 // of calls and answers: stricter than the clock, which stands still
		var work sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		for id := range 4 {
			work.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(id)))
				clerk := clerks.New(random, 3)
				for n := 0; ctx.Err() == nil; n++ {
					op := clerk.Draw(fmt.Sprintf("%d-%d", id, n))
					called := order.Add(1)
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
					got := clerk.Ask(ctx, store, op)
					cancel()
					returned := order.Add(1)
					mu.Lock()
					if got.Unknown {
						unknown++
						returned = math.MaxInt64 // it may take effect at any later time
					}
					events = append(events, history.Event{Op: op, Got: got, Call: called, Return: returned})
					mu.Unlock()
					<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
			})
		}
		c.Chaos(frameworktest.Chaos{Plan: frameworktest.NewPlan(seed, time.Minute, frameworktest.KillAgent, frameworktest.IsolateAgent,
			frameworktest.DeafenAgent, frameworktest.MuteAgent, frameworktest.RebootAgent, frameworktest.KillExecutor, frameworktest.KillFramework)})
		c.Advance(10 * time.Second)
		stop()
		work.Wait()
	})
	t.Logf("%d operations, the answer to %d is not known", len(events), unknown)
	if len(events)-unknown < 50 {
		t.Errorf("only %d of %d operations were answered", len(events)-unknown, len(events))
	}
	return events
}
