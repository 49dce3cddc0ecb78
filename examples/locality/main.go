// Command locality shows delay scheduling (Zaharia et al., EuroSys 2010): jobs read
// blocks that sit on three agents each, and hold out for one of them for -wait before they
// take any. It runs the same jobs with each wait and prints what the waiting has brought
// and cost.
//
//	locality -waits 0s,1s,5s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("locality: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	master := os.Getenv("TENDER_MASTER")
	if master == "" {
		master = framework.DefaultMaster
	}
	w := workload{smallEvery: 150 * time.Millisecond, largeEvery: 5 * time.Second}
	flag.StringVar(&master, "master", master, "gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	waits := flag.String("waits", "0s,1s,5s", "`times` that jobs hold out, joined by commas")
	flag.IntVar(&w.small, "small", 20, "`number` of jobs of 3 tasks")
	flag.IntVar(&w.large, "large", 0, "`number` of jobs of 100 tasks")
	flag.DurationVar(&w.taskTime, "task", 2*time.Second, "`time` that a task takes on average")
	flag.Parse()

	times, err := timesOf(*waits)
	if err != nil {
		return fmt.Errorf("-waits: %w", err)
	}
	config := framework.Config{Name: "locality", Masters: strings.Split(master, ","), ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
	agents, err := agentsOf(ctx, config, 2*time.Second)
	if err != nil {
		return err
	}
	if len(agents) < 2 || w.taskTime <= 0 || w.small+w.large < 1 {
		return errors.New("there must be two agents with something free, one job and a time for tasks")
	}
	fmt.Printf("%d agents, %d small and %d large jobs\n", len(agents), w.small, w.large)
	for _, wait := range times {
		e := newExperiment(wait, w.jobs(agents, 1))
		if err := framework.Run(ctx, config, e); err != nil {
			return err
		}
		if err := errors.Join(ctx.Err(), e.Err()); err != nil {
			return err
		}
		e.print(os.Stdout, wait)
	}
	return nil
}

// timesOf reads a list of times that are separated by commas.
func timesOf(words string) (times []time.Duration, err error) {
	for word := range strings.SplitSeq(words, ",") {
		wait, err := time.ParseDuration(word)
		if err != nil {
			return nil, err
		}
		times = append(times, wait)
	}
	return times, nil
}

// print prints the result of one run.
func (e *experiment) print(out io.Writer, wait time.Duration) {
	n := e.Locality()
	fmt.Fprintf(out, "wait %4v: %5.1f %% node-local, mean wait %5.2f s", wait, 100*n.HitRate(), n.MeanWait().Seconds())
	if e.small.jobs > 0 {
		fmt.Fprintf(out, "; small jobs %5.1f %%, %5.1f s", 100*e.small.hitRate(), e.small.mean().Seconds())
	}
	if e.large.jobs > 0 {
		fmt.Fprintf(out, "; large jobs %5.1f %%, %5.1f s", 100*e.large.hitRate(), e.large.mean().Seconds())
	}
	fmt.Fprintln(out)
}
