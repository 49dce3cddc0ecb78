// Command programs runs the drivers of examples/rdd on a cluster: `programs NAME -help` has the flags of each. The agents
// start the same binary as executors.
//
//	programs wordcount -verify DIR...   how often is each word in these files?
//	programs generate -points 1000000   points in text files, for the next two
//	programs logreg points              which plane divides the points? (goes over them again and again)
//	programs kmeans points              around which centers do they lie? (the same)
//	programs logsearch FILE...          load a log once, ask again and again
//	programs pagerank EDGES...          which page is linked most by those that are linked most?
//	programs terasort -records 1000000  sort more than fits into memory
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/tenderhq/tender/examples/rdd"
	"github.com/tenderhq/tender/framework"
)

// program is a driver: it adds its flags, and returns the function that runs after they are parsed.
type program func(flags *flag.FlagSet) func(ctx context.Context, c *rdd.Context, out io.Writer) error

var programs = map[string]program{
	"wordcount": wordcount, "generate": generate, "logreg": logreg, "kmeans": kmeans,
	"logsearch": logsearch, "pagerank": pagerank, "terasort": terasort,
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("rdd: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := rdd.Main(ctx, drive); err != nil {
		log.Fatal(err)
	}
}

// drive runs the program that the command line names.
func drive(ctx context.Context) error {
	names := strings.Join(slices.Sorted(maps.Keys(programs)), ", ")
	if len(os.Args) < 2 {
		return errors.New("name a program: " + names)
	}
	name := os.Args[1]
	choose, there := programs[name]
	if !there {
		return fmt.Errorf("there is no program %q, but %s", name, names)
	}
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	config, local, masters := rdd.Config{Name: "rdd-" + name}, false, ""
	flags.StringVar(&masters, "master", cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster),
		"gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	flags.StringVar((*string)(&config.Role), "role", "", "`role` whose share of the cluster is used (default: everybody's)")
	flags.StringVar((*string)(&config.Mode), "mode", string(rdd.Coarse), "`mode`: coarse executors keep their cpus, fine tasks get theirs one by one")
	flags.IntVar(&config.Executors, "executors", 4, "`number` of executors, each on an agent of its own")
	flags.IntVar(&config.Slots, "slots", 1, "`number` of tasks that each executor runs at once")
	flags.Float64Var(&config.MemoryMB, "memory", 512, "`MB` for each executor")
	split := flags.Int64("split", 0, "`MB` of text that make one partition (default 32)")
	flags.DurationVar(&config.Wait, "wait", 0, "how long a task waits for its cached partition (default 3s)")
	flags.Float64Var(&config.Speculate, "speculate", 0, "copy tasks that take so many `times` the median of their stage")
	stages := flags.Bool("stages", false, "print what each action's stages have done and what is cached, when it has ended")
	flags.BoolVar(&local, "local", false, "run executors in this process, without a cluster")
	run := choose(flags)
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	config.Masters, config.SplitBytes = strings.Split(masters, ","), *split<<20
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		config.Progress = os.Stderr
	}
	if *stages {
		config.Stages = os.Stderr
	}
	body := func(ctx context.Context, c *rdd.Context) error { return run(ctx, c, os.Stdout) }
	if local {
		return rdd.Local(ctx, config, body)
	}
	return rdd.Run(ctx, config, body)
}
