package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault is what a round breaks.
type fault struct {
	how  string        // kill, stop, cut
	whom string        // leader, follower, agent, scheduler
	hold time.Duration // how long it lasts; a kill: until it is started again
	pick int           // which of several
}

func (f fault) String() string { return f.how + "/" + f.whom }

var (
	hows  = []string{"kill", "stop", "cut"}
	whoms = []string{"leader", "follower", "agent", "scheduler"}
)

// plan is all faults in turn, then at random; the same for the same seed.
func plan(o options) []fault {
	random := rand.New(rand.NewPCG(o.seed, 0))
	var kinds []fault
	for _, whom := range whoms {
		for _, how := range hows {
			if f := (fault{how: how, whom: whom}); o.only == "" || o.only == f.String() {
				kinds = append(kinds, f)
			}
		}
	}
	var all []fault
	for i := range o.rounds {
		f := kinds[random.IntN(len(kinds))]
		if i < len(kinds) {
			f = kinds[i]
		}
		f.hold = holdFor(random, f.how)
		f.pick = random.IntN(1 << 20)
		all = append(all, f)
	}
	if o.rounds < len(kinds) { // a short run has a bit of everything
		all = all[:0]
		for i, k := range random.Perm(len(kinds))[:o.rounds] {
			f := kinds[k]
			if i == 0 {
				f = kinds[0] // the hardest
			}
			f.hold, f.pick = holdFor(random, f.how), random.IntN(1<<20)
			all = append(all, f)
		}
	}
	return all
}

func holdFor(random *rand.Rand, how string) time.Duration {
	if how == "kill" {
		return time.Duration(random.IntN(1000)) * time.Millisecond
	}
	return 500*time.Millisecond + time.Duration(random.IntN(7500))*time.Millisecond
}

// target finds who is meant now.
func (c *cluster) target(ctx context.Context, f fault) *node {
	switch f.whom {
	case "leader":
		return c.leader(ctx)
	case "follower":
		leader := c.leader(ctx)
		others := slices.DeleteFunc(slices.Clone(c.masters), func(n *node) bool { return n == leader })
		return others[f.pick%len(others)]
	case "agent":
		return c.agents[f.pick%len(c.agents)]
	}
	for _, s := range c.schedulers {
		if s.name == c.ledger.active {
			return s
		}
	}
	return c.schedulers[0]
}

// round breaks one thing and awaits that all is well again.
func (c *cluster) round(ctx context.Context, number int, f fault, r *report) error {
	n := c.target(ctx, f)
	if n == nil {
		return fmt.Errorf("there is no %s", f.whom)
	}
	began := time.Now()
	over, err := c.inflict(ctx, n, f)
	if err != nil {
		return err
	}
	err = c.await(ctx, "healing", c.options.heal, func(ctx context.Context) string { return c.illness(ctx, over) })
	healed := time.Since(over)
	r.add(f, began, healed, c.ledger)
	fmt.Printf("round %d: %s %s for %v, well after %v%s\n", number, f, n.name, f.hold.Round(time.Millisecond),
		healed.Round(time.Millisecond), r.lastFailover())
	return err
}

// inflict returns when the fault is over. A killed leader is started again after the
// next one has got a task to run.
func (c *cluster) inflict(ctx context.Context, n *node, f fault) (over time.Time, err error) {
	began := time.Now()
	switch f.how {
	case "kill":
		n.kill(syscall.SIGKILL)
		pause(ctx, f.hold)
		if f.whom == "leader" {
			err = c.await(ctx, "a task through the next leader", c.options.heal, func(context.Context) string {
				if _, ok := c.ledger.firstAfter(began, running); ok {
					return ""
				}
				return "no new task runs"
			})
		}
		if err == nil {
			err = n.start()
		}
	case "stop":
		n.signal(syscall.SIGSTOP)
		pause(ctx, f.hold)
		n.signal(syscall.SIGCONT)
	case "cut":
		c.network.setCut(n.name, true)
		pause(ctx, f.hold)
		c.network.setCut(n.name, false)
	}
	return time.Now(), err
}

func running(t *task) time.Time { return t.running }
