package frameworktest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

var seedFlag = flag.Uint64("seed", 0, "replay the chaos of this one seed")

const (
	chaosSeeds     = 24
	chaosSeedsLong = 500
)

// TestChaos: whatever breaks, the promises of the architecture hold, and when it is whole again,
// everything comes to its end. Replay a seed with -seed.
func TestChaos(t *testing.T) {
	first, last := uint64(1), uint64(chaosSeeds)
	switch {
	case *seedFlag != 0:
		first, last = *seedFlag, *seedFlag
	case os.Getenv("TENDER_TEST_LONG") != "":
		last = chaosSeedsLong
	case testing.Short():
		last = 3
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { chaos(t, seed) })
	}
}

// chaos draws a cluster, its work and its faults from the seed.
func chaos(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	cluster := frameworktest.Cluster{
		Masters: []int{1, 3, 3, 3, 5}[random.IntN(5)],
		Agents:  2 + random.IntN(4),
		Latency: time.Duration(random.IntN(4)) * 10 * time.Millisecond,
		Seed:    seed,
	}
	plan := frameworktest.NewPlan(seed, 90*time.Second)
	defer func() {
		if t.Failed() {
			t.Logf("%d masters, %d agents, latency %v; %v", cluster.Masters, cluster.Agents, cluster.Latency, plan)
			t.Logf("replay with: go test ./framework/frameworktest -run TestChaos -seed %d", seed)
		}
	}()
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		jobs := 40 + random.IntN(100)
		schedulers := make(map[string]*batch)
		for _, name := range []string{"red", "blue"} {
			schedulers[name] = newBatch(jobs, "")
			schedulers[name].command = command(seed)
			c.Start(framework.Config{Name: name, FailoverTimeout: time.Hour}, schedulers[name])
		}
		c.Chaos(frameworktest.Chaos{Plan: plan, Again: func(killed *frameworktest.Framework) framework.Scheduler {
			return killed.Scheduler() // its state is, so to say, on its disk
		}})
		c.AwaitEnded()
		c.AwaitSettled()
	})
}

// command draws what a job does: mostly it works for some seconds, sometimes it fails at first.
func command(seed uint64) func(job int) *api.Command {
	return func(job int) *api.Command {
		random := rand.New(rand.NewPCG(seed, uint64(job)+100))
		return &api.Command{Shell: fmt.Sprintf("sleep %.3f", random.ExpFloat64()*8)}
	}
}
