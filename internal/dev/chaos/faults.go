package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is what a round breaks.
type fault struct {
	how  string        // kill, stop, cut, full, sleep, gone, reboot, restore, trust
	whom string        // leader, follower, agent, scheduler, trio, masters, executors; of trust: what is done
	hold time.Duration // how long it lasts; a kill: until it is started again
	pick int           // which of several
}

func (f fault) String() string { return f.how + "/" + f.whom }

// kinds are all faults. A stop is short enough for some sessions to outlive it; a sleep
// is not: who wakes up has been replaced long ago. The trio is a leader with an agent and
// a scheduler of its own: when they wake up together they only know each other. Full is
// the disk of the first master. The masters are all of them at once, the executors those
// of an agent that runs something. Gone is an agent that is away, marked gone and comes
// back; a reboot ends all that runs on its host. The full disk of an agent is that of
// the first, which a task fills. Restored is a snapshot of what the masters had.
func kinds(o options) (all []fault) {
	for _, whom := range []string{"leader", "follower", "agent", "scheduler"} {
		for _, how := range []string{"kill", "stop", "cut"} {
			all = append(all, fault{how: how, whom: whom})
		}
	}
	all = append(all, fault{how: "sleep", whom: "leader"}, fault{how: "sleep", whom: "trio"},
		fault{how: "kill", whom: "masters"}, fault{how: "kill", whom: "executors"}, fault{how: "gone", whom: "agent"},
		fault{how: "restore", whom: "masters"})
	if o.mounts {
		all = append(all, fault{how: "full", whom: "leader"}, fault{how: "full", whom: "follower"}, fault{how: "reboot", whom: "agent"},
			fault{how: "full", whom: "agent"})
	}
	if o.life > 0 {
		all = append(all, trustFaults...)
	}
	only := strings.Split(o.only, ",")
	return slices.DeleteFunc(all, func(f fault) bool {
		return !slices.ContainsFunc(only, func(begin string) bool { return strings.HasPrefix(f.String(), begin) })
	})
}

// plan is all faults in turn, then at random; the same for the same seed. A short run
// has the hardest, then some of the others but those that take long.
func plan(o options) (all []fault) {
	random := rand.New(rand.NewPCG(o.seed, 0))
	kinds := kinds(o)
	if o.rounds < len(kinds) {
		kinds = slices.DeleteFunc(kinds, func(f fault) bool { return f.how == "sleep" && o.only == "" })
		random.Shuffle(len(kinds)-1, func(i, j int) { kinds[i+1], kinds[j+1] = kinds[j+1], kinds[i+1] })
	}
	for i := range o.rounds {
		if len(kinds) == 0 {
			return nil
		}
		f := kinds[random.IntN(len(kinds))]
		if i < len(kinds) {
			f = kinds[i]
		}
		f.hold = holdFor(random, f)
		f.pick = random.IntN(1 << 20)
		all = append(all, f)
	}
	return all
}

func holdFor(random *rand.Rand, f fault) time.Duration {
	some := func(base, more int) time.Duration { return time.Duration(base+random.IntN(more)) * time.Millisecond }
	switch {
	case f.how == "kill", f.how == "reboot", f.how == "restore":
		return some(0, 900)
	case f.String() == "sleep/leader":
		return 30 * time.Second
	case f.how == "trust":
		return some(500, 2000)
	case f.how == "sleep":
		return some(8000, 8000)
	case f.how == "full":
		return some(2000, 4000)
	}
	return some(500, 7500)
}

// target finds who is meant now.
func (c *cluster) target(ctx context.Context, f fault) (*node, error) {
	switch {
	case f.String() == "full/agent":
		return c.agents[0], nil
	case f.how == "full":
		return c.masters[0], nil
	case f.whom == "leader", f.whom == "trio", f.how == "trust":
		return c.awaitLeader(ctx)
	case f.whom == "follower":
		leader, err := c.awaitLeader(ctx)
		others := slices.DeleteFunc(slices.Clone(c.masters), func(n *node) bool { return n == leader })
		return others[f.pick%len(others)], err
	case f.whom == "masters":
		return c.masters[0], nil
	case f.strikes():
		return c.busyAgent(ctx)
	case f.whom == "agent":
		return c.agents[f.pick%len(c.agents)], nil
	}
	return c.activeScheduler(), nil
}

func (c *cluster) activeScheduler() *node {
	for _, s := range c.schedulers {
		if s.name == c.ledger.active {
			return s
		}
	}
	return c.schedulers[0]
}

// round breaks one thing and awaits that all is well again.
func (c *cluster) round(ctx context.Context, number int, f fault, r *report) error {
	n, err := c.target(ctx, f)
	if err != nil {
		return err
	}
	if f.how == "full" && f.whom != "agent" { // the first master, in the role that is wanted
		if err := c.seat(ctx, n, f.whom == "leader"); err != nil {
			return err
		}
	}
	began := time.Now()
	over, err := c.inflict(ctx, n, f, r)
	if err != nil {
		return err
	}
	err = c.await(ctx, "healing", c.options.heal, func(ctx context.Context) string { return c.illness(ctx, over) })
	healed := time.Since(over)
	r.add(f, began, healed, c.ledger)
	fmt.Printf("round %d: %s %s for %v, well after %v%s\n", number, f, n.name, over.Sub(began).Round(time.Millisecond),
		healed.Round(time.Millisecond), r.last)
	return err
}

// inflict returns when the fault is over.
func (c *cluster) inflict(ctx context.Context, n *node, f fault, r *report) (over time.Time, err error) {
	switch f.how {
	case "kill":
		switch f.whom {
		case "masters":
			err = c.crashMasters(ctx, f)
		case "executors":
			err = c.killExecutors(ctx, n, f, r)
		default:
			err = c.crash(ctx, n, f)
		}
	case "gone":
		err = c.markGone(ctx, n, f, r)
	case "reboot":
		err = c.reboot(ctx, n, f, r)
	case "stop":
		n.signal(syscall.SIGSTOP)
		pause(ctx, f.hold)
		n.signal(syscall.SIGCONT)
	case "cut":
		c.network.setCut(n.line(), true)
		pause(ctx, f.hold)
		c.network.setCut(n.line(), false)
	case "sleep":
		err = c.sleep(ctx, n, f, r)
	case "full":
		if f.whom == "agent" {
			err = c.fillByTask(ctx, n, f)
		} else {
			err = c.fillUp(ctx, n, f, r)
		}
	case "restore":
		err = c.restore(ctx, f)
	case "trust":
		err = c.trust.try(ctx, f, r)
	}
	return time.Now(), err
}

// crash: a killed leader is started again after the next one has got a task to run.
func (c *cluster) crash(ctx context.Context, n *node, f fault) error {
	began := time.Now()
	n.kill(syscall.SIGKILL)
	pause(ctx, f.hold)
	if f.whom == "leader" {
		if err := c.awaitTask(ctx, began); err != nil {
			return err
		}
	}
	return n.start()
}

// awaitTask returns when a task runs that was launched after a moment.
func (c *cluster) awaitTask(ctx context.Context, began time.Time) error {
	return c.await(ctx, "a task through the next leader", c.options.heal, func(context.Context) string {
		if _, ok := c.ledger.firstAfter(began, running); ok {
			return ""
		}
		return "no new task runs"
	})
}

func running(t *task) time.Time { return t.running }

// sleep stops a leader for so long that it is replaced, then wakes it: it must find out
// by itself, and the next one leads on as if nothing were.
func (c *cluster) sleep(ctx context.Context, n *node, f fault, r *report) error {
	sleepers := []*node{n}
	if f.whom == "trio" {
		sleepers = append(sleepers, c.agents[f.pick%len(c.agents)], c.activeScheduler())
	}
	began := time.Now()
	for _, s := range sleepers {
		s.signal(syscall.SIGSTOP)
		defer s.signal(syscall.SIGCONT)
	}
	pause(ctx, f.hold)
	if err := c.awaitTask(ctx, began); err != nil {
		return err
	}
	next, term := c.term(ctx)
	for _, s := range sleepers {
		s.signal(syscall.SIGCONT)
	}
	if err := c.await(ctx, "the sleeper's stepping down", c.options.heal, func(ctx context.Context) string {
		leader := c.leader(ctx)
		if leader == nil || leader == n {
			return "nobody leads but " + n.name
		}
		return ""
	}); err != nil {
		return err
	}
	pause(ctx, time.Second)
	// Under load the next leader may lose its office all the same: only the sleeper must not take it.
	if leader, after := c.term(ctx); leader == n.name {
		r.broken = append(r.broken, fmt.Sprintf("%s woke up after %v: before, %s led in term %s; after, %s in term %s",
			n.name, f.hold, next, term, leader, after))
	}
	return nil
}
