package frameworktest_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

var seedFlag = flag.Uint64("seed", 0, "replay the chaos of this one seed")

// TestChaos: whatever breaks, the promises of the architecture hold. When everything is whole again, all work comes to
// its end. Replay a seed with -seed.
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
	plan := frameworktest.NewPlan(seed, 20*time.Second+time.Duration(random.IntN(60))*time.Second)
	defer func() {
		if t.Failed() {
			t.Logf("%d masters, %d agents, latency %v; %v", cluster.Masters, cluster.Agents, cluster.Latency, plan)
			t.Logf("replay with: go test ./framework/frameworktest -run TestChaos -seed %d", seed)
		}
	}()
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		watched := watchedBy(c, cluster.Masters, seed)
		defer watched.end()
		var batches []*batch
		jobs := 50 + random.IntN(200)
		for _, name := range []string{"red", "blue"} {
			b := newBatch(jobs, "")
			b.command, b.stays = command(seed), true
			if seed%2 == 0 {
				b.moods = rand.New(rand.NewPCG(seed, 3))
			}
			batches = append(batches, b)
			c.Start(framework.Config{Name: name, FailoverTimeout: time.Hour}, b)
		}
		clerk := newClerk(c)
		plan := frameworktest.Chaos{Plan: plan, Between: clerk.write, Again: func(killed *frameworktest.Framework) framework.Scheduler {
			return killed.Scheduler() // its state survives it, as if it were on disk
		}}
		c.Chaos(plan)
		c.AwaitAgreement()
		clerk.check(t)
		c.AwaitFor(time.Hour, "all jobs to be done", func() bool {
			return !slices.ContainsFunc(batches, func(b *batch) bool { return b.left.Load() > 0 })
		})
		c.AwaitSettled()
		watched.rests()
		for _, f := range c.Frameworks() {
			if err := f.Teardown(); err != nil {
				t.Error(err)
			}
		}
		c.AwaitEmpty()
		watched.rests()
	})
}

// clerk changes the registry during the chaos, and checks promise 5: a change that was answered is kept.
type clerk struct {
	c     *frameworktest.Handle
	busy  chan struct{} // closed when the last round of writes is over
	tried int           // the last weight that was asked for
	kept  int           // the last one that was answered
}

const clerkRole = "clerk"

func newClerk(c *frameworktest.Handle) *clerk {
	k := &clerk{c: c, busy: make(chan struct{})}
	close(k.busy)
	return k
}

// write begins a round of writes, while the story goes on to the next fault. Each write is asked for once. After an
// error it is open whether the write counts.
func (k *clerk) write() {
	<-k.busy
	operator := k.c.Operator()
	if operator == nil {
		return
	}
	k.busy = make(chan struct{})
	go func() {
		defer close(k.busy)
		for range 5 {
			if !k.one(operator) {
				return
			}
		}
	}()
}

func (k *clerk) one(operator apiv1.OperatorServiceClient) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	k.tried++
	weight := float64(k.tried)
	_, err := operator.SetRole(ctx, &apiv1.SetRoleRequest{Role: clerkRole, Weight: &weight})
	if err == nil {
		k.kept = k.tried
	}
	return err == nil
}

func (k *clerk) check(t *testing.T) {
	t.Helper()
	<-k.busy
	k.c.Leader()
	list, err := k.c.Operator().ListRoles(context.Background(), &apiv1.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	weight := 1
	for _, role := range list.GetItems() {
		if role.GetRole() == clerkRole {
			weight = int(role.GetWeight())
		}
	}
	if weight < k.kept || weight > max(k.tried, 1) {
		t.Errorf("the weight is %d; %d was asked for last, %d was answered last (promise 5)", weight, k.tried, k.kept)
	}
	t.Logf("the registry took %d of %d changes", k.kept, k.tried)
}

// command draws the command of a job. Most jobs work for some seconds, and some fail at first.
func command(seed uint64) func(job int) *api.Command {
	return func(job int) *api.Command {
		random := rand.New(rand.NewPCG(seed, uint64(job)+100))
		return &api.Command{Shell: fmt.Sprintf("sleep %.3f", random.ExpFloat64()*8)}
	}
}
