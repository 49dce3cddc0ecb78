// Command programs runs the drivers of examples/rdd on a cluster: `programs NAME -help` has the flags of each. The agents
// start the same binary as executors.
//
//	programs wordcount -verify DIR...   how often is each word in these files?
//	programs generate -points 1000000   points in text files, for the next one
//	programs logreg points              which plane divides the points? (goes over them again and again)
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/tenderhq/tender/examples/rdd"
	"github.com/tenderhq/tender/framework"
)

// program is a driver: it adds its flags, and returns the function that runs after they are parsed.
type program func(flags *flag.FlagSet) func(ctx context.Context, c *rdd.Context, out io.Writer) error

var programs = map[string]program{"wordcount": wordcount, "generate": generate, "logreg": logreg}

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
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		return errors.New("name a program: generate, logreg, wordcount")
	}
	name := os.Args[1]
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	config := rdd.Config{Name: "rdd-" + name}
	masters := flags.String("master", cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster),
		"gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	flags.StringVar((*string)(&config.Role), "role", "", "`role` whose share of the cluster is used (default: everybody's)")
	flags.IntVar(&config.Executors, "executors", 4, "`number` of executors, each on an agent of its own")
	flags.Float64Var(&config.MemoryMB, "memory", 512, "`MB` for each executor")
	split := flags.Int64("split", 0, "`MB` of text that make one partition (default 32)")
	flags.DurationVar(&config.Wait, "wait", 0, "how long a task waits for its cached partition (default 3s)")
	local := flags.Bool("local", false, "run executors in this process, without a cluster")
	run := programs[name](flags)
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	config.Masters, config.SplitBytes = strings.Split(*masters, ","), *split<<20
	body := func(ctx context.Context, c *rdd.Context) error { return run(ctx, c, os.Stdout) }
	if *local {
		return rdd.Local(ctx, config, body)
	}
	return rdd.Run(ctx, config, body)
}
