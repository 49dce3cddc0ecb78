// Command chaos is what `make chaos` runs: the real binary on loopback, masters,
// agents and schedulers as processes of their own, and one fault after the other. At
// the end it says what it has seen and whether every promise was kept:
//
//	bin/chaos -binary bin/tender -rounds 100 -seed 7
//
// With -executors it is one agent with as many executors that is killed and started again, round after round.
//
// It decides nothing: it breaks things, awaits that they heal, and counts. What it shares with the virtual stages, the plan
// above all, is in internal/testing/chaos.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if _, told := errors.AsType[*exec.ExitError](err); told {
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// run does what the first argument says, if this program has started itself.
func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 4 && args[0] == "scheduler":
		return schedule(ctx, args[1], args[2], strings.Split(args[3], ","))
	case len(args) > 2 && args[0] == booted:
		return bootAs(args[1], args[2:])
	case len(args) > 0 && args[0] == apart:
		return breakAll(ctx, args[1:], true)
	}
	if ended, err := runApart(ctx, args); ended {
		return err
	}
	return breakAll(ctx, args, false)
}

// options are the options of a run.
type options struct {
	binary          string
	masters, agents int
	rounds          int
	seed            uint64
	heal            time.Duration // how long a round may take to heal; 0: there is no limit
	profile         string
	only            string // how the names of the wanted faults begin, such as kill/leader
	keep            bool
	grow            bool
	executors       int           // above 0: instead of faults, one agent with that many executors is killed
	isolation       string        // the isolation of that agent's tasks
	mounts          bool          // we may mount file systems, so a disk can be full and an agent reboot
	life            time.Duration // the life of the cluster's certificates; 0: it has none
	limit           time.Duration // of the whole run, which then says where it hangs; 0: none
}

func breakAll(ctx context.Context, args []string, mounts bool) error {
	o := options{mounts: mounts}
	flag := flag.NewFlagSet("chaos", flag.ExitOnError)
	flag.StringVar(&o.binary, "binary", "bin/tender", "the tender to break")
	flag.IntVar(&o.masters, "masters", 3, "how many masters: 3 or 5")
	flag.IntVar(&o.agents, "agents", 5, "how many agents")
	flag.IntVar(&o.rounds, "rounds", 100, "how many faults")
	flag.Uint64Var(&o.seed, "seed", 1, "of the faults")
	flag.DurationVar(&o.heal, "heal", 30*time.Second, "how long a round may take to heal; 0 = as long as it wants")
	flag.StringVar(&o.profile, "profile", "lan", "times of Raft")
	flag.StringVar(&o.only, "only", "", "only faults that begin so, such as kill/leader or full; several with commas")
	flag.DurationVar(&o.life, "life", 0, "how long the cluster's certificates are good, such as 2m; 0 = it has none, but for -only trust, where it is 1m")
	flag.DurationVar(&o.limit, "limit", 0, "how long all of it may take; then it says what each of its goroutines waits for, and ends; 0 = as long as it wants")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder with all logs")
	flag.BoolVar(&o.grow, "grow", false, "instead of faults: 1 -> 3 -> 5 -> 3 masters under load")
	flag.IntVar(&o.executors, "executors", 0, "instead of faults: one agent with so many executors is killed in each round")
	flag.StringVar(&o.isolation, "isolation", "auto", "with -executors: walls of the agent's tasks")
	_ = flag.Parse(args) // it exits by itself
	if o.life == 0 && strings.HasPrefix(o.only, "trust") {
		o.life = time.Minute
	}
	if o.executors > 0 {
		o.masters, o.agents, o.mounts, o.life = 1, 1, false, 0
	}
	if o.grow {
		o.masters, o.mounts, o.life = 5, false, 0
	}
	return runAll(ctx, o)
}

// limited ends a run that takes too long. It first writes where the run hangs.
func (o options) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.limit <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(o.limit, func() {
		fmt.Fprintf(os.Stderr, "chaos: the limit of %v is over; all goroutines:\n", o.limit)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // nobody could be told of an error
		cancel(fmt.Errorf("the limit of %v is over", o.limit))
	})
	return ctx, func() { timer.Stop(); cancel(nil) }
}

func runAll(ctx context.Context, o options) (err error) {
	c, err := newCluster(o)
	if err != nil {
		return err
	}
	defer func() { c.stop(err != nil) }()
	ctx, cancel := o.limited(ctx)
	defer cancel()
	if o.executors > 0 {
		return c.killAgent(ctx)
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	r := &report{options: o}
	if o.grow {
		if err := c.grow(ctx, r); err != nil {
			return err
		}
		o.rounds = 0
	}
	acts := o.acts()
	if err := chaos.Play(chaos.Rounds(o.seed, o.rounds, acts), &stage{cluster: c, ctx: ctx, r: r}, acts); err != nil {
		r.print(os.Stdout)
		return err
	}
	return r.conclude(c.verdict(ctx, r))
}
