// Command chaosagent is what `make chaos-agent` runs: one master and one agent of the real binary on loopback, and many
// frameworks, each with a built-in executor of its own, a task that runs on and one short task after the other. The
// agent is killed and started again, over and over:
//
//	bin/chaosagent -binary bin/tender -cycles 1000 -executors 50
//
// At the end it says what was lost, run twice or left behind, and how long the agent took until all executors were back.
// It decides nothing: it breaks one thing, awaits that it heals, and counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos-agent:", err)
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	binary, isolation string
	cycles, executors int
	seed              uint64
	keep              bool
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	flag := flag.NewFlagSet("chaos-agent", flag.ExitOnError)
	flag.StringVar(&o.binary, "binary", "bin/tender", "the tender to break")
	flag.StringVar(&o.isolation, "isolation", "auto", "walls of the agent's tasks")
	flag.IntVar(&o.cycles, "cycles", 1000, "how often the agent is killed")
	flag.IntVar(&o.executors, "executors", 50, "how many executors live")
	flag.Uint64Var(&o.seed, "seed", 1, "of the moments")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder with all logs")
	_ = flag.Parse(args) // exits itself
	c, err := newCluster(o)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, c.kill())
		if err == nil && !o.keep {
			err = os.RemoveAll(c.folder)
		} else {
			fmt.Println("logs and folders stay in", c.folder)
		}
	}()
	if err := c.start(); err != nil {
		return err
	}
	all := startFrameworks(ctx, c.master, o.executors)
	defer all.end()
	back, err := c.cycle(ctx, o, all)
	if err != nil {
		return err
	}
	return c.judge(ctx, all, back)
}

// upMax is how long the agent is left alone, at most, when all is back.
const upMax = 300 * time.Millisecond

// cycle kills the agent again and again, and returns how long it took each time until all executors were back.
func (c *cluster) cycle(ctx context.Context, o options, all *frameworks) (back []time.Duration, err error) {
	random := rand.New(rand.NewPCG(o.seed, 0))
	if err := c.awaitConnected(ctx, all); err != nil {
		return nil, err
	}
	for i := range o.cycles {
		pause(ctx, time.Duration(random.Int64N(int64(upMax))))
		if err := c.agent.Kill(); err != nil {
			return nil, err
		}
		pause(ctx, time.Duration(random.Int64N(int64(upMax)/4))) // tasks end and nobody hears of it
		began := time.Now()
		if err := c.agent.Start(); err != nil {
			return nil, err
		}
		if err := c.awaitConnected(ctx, all); err != nil {
			return nil, fmt.Errorf("cycle %d: %w", i+1, err)
		}
		back = append(back, time.Since(began))
	}
	return back, nil
}

// judge ends all tasks and says what became of them, and what is left of the agent.
func (c *cluster) judge(ctx context.Context, all *frameworks, back []time.Duration) error {
	late := all.finish(ctx, endMax)
	var found findings
	all.judge(&found, filepath.Join(c.agentFolder(), "sandboxes"))
	found.silent = len(late)
	all.end()
	left, err := c.leftovers(ctx)
	if err != nil {
		return err
	}
	slices.Sort(back)
	fmt.Printf("%d cycles of kill -9 and a new start, with %d executors and %d tasks in all\n", len(back), len(all.each), found.launched)
	if len(back) > 0 {
		fmt.Printf("until all executors are back: p50 %v, p99 %v, at most %v\n", at(back, 50), at(back, 99), at(back, 100))
	}
	fmt.Printf("tasks lost: %d; run twice: %d; statuses lost: %d; never started, and told so: %d\n", len(found.lost), len(found.twice), found.silent, found.dropped)
	fmt.Printf("left: %d control groups, %d mounts, %d processes\n", len(left.groups), len(left.mounts), len(left.processes))
	var broken []string
	for what, which := range map[string][]string{
		"lost": found.lost, "run twice": found.twice, "without an end": late,
		"control groups left": left.groups, "mounts left": left.mounts, "processes left": left.processes,
	} {
		if len(which) > 0 {
			slices.Sort(which)
			broken = append(broken, what+": "+strings.Join(which[:min(len(which), 10)], ", "))
		}
	}
	if len(broken) > 0 {
		slices.Sort(broken)
		return fmt.Errorf("promises were broken:\n  %s", strings.Join(broken, "\n  "))
	}
	return nil
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(time.Millisecond)
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
