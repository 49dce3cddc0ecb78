// Command chaos is what `make chaos` runs: the real binary on loopback, masters,
// agents and schedulers as processes of their own, and one fault after the other. At
// the end it says what it has seen and whether every promise was kept:
//
//	bin/chaos -binary bin/tender -rounds 100 -seed 7
//
// It decides nothing: it breaks things, awaits that they heal, and counts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := chaos
	if len(os.Args) > 1 && os.Args[1] == "scheduler" { // started by ourselves
		run = func(ctx context.Context) error {
			return schedule(ctx, os.Args[2], os.Args[3], strings.Split(os.Args[4], ","))
		}
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	binary          string
	masters, agents int
	rounds          int
	seed            uint64
	heal            time.Duration // a round may take to heal; 0: as long as it wants
	profile         string
	only            string // a fault and a target, such as kill/leader
	keep            bool
}

func chaos(ctx context.Context) error {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/tender", "the tender to break")
	flag.IntVar(&o.masters, "masters", 3, "how many masters: 3 or 5")
	flag.IntVar(&o.agents, "agents", 5, "how many agents")
	flag.IntVar(&o.rounds, "rounds", 100, "how many faults")
	flag.Uint64Var(&o.seed, "seed", 1, "of the faults")
	flag.DurationVar(&o.heal, "heal", 30*time.Second, "how long a round may take to heal; 0 = as long as it wants")
	flag.StringVar(&o.profile, "profile", "lan", "times of Raft")
	flag.StringVar(&o.only, "only", "", "one kind of fault, such as kill/leader")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder with all logs")
	flag.Parse()
	return runAll(ctx, o)
}

func runAll(ctx context.Context, o options) (err error) {
	c, err := newCluster(o)
	if err != nil {
		return err
	}
	defer func() { c.stop(err != nil) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	r := &report{options: o}
	for i, f := range plan(o) {
		if err := c.round(ctx, i+1, f, r); err != nil {
			return fmt.Errorf("round %d, %s: %w", i+1, f, err)
		}
	}
	faults, err := c.verdict(ctx, r)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if len(faults) > 0 {
		return fmt.Errorf("promises were broken:\n  %s", strings.Join(faults, "\n  "))
	}
	return nil
}
