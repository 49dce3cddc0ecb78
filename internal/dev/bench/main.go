// Command bench measures a whole cluster on this machine: three durable masters and
// checkpointing agents, the defaults that users get, through the public SDK. Each
// figure is the median of several runs after a warm-up; what can be is measured beside
// a reference in the same run.
//
//	make bench
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/dev/devcluster"
)

// options are the values of the flags.
type options struct {
	binary  string
	runs    int
	tasks   int
	spawns  int
	singles int
	only    string
	dir     string
	soak    time.Duration
	beside  time.Duration
	kills   int
	agents  int
	masters string
	profile string
	jobs    int
	quick   bool

	hostileOptions
	heartbeat time.Duration
	key       string // folder
	anew      bool
}

// hostileOptions are the options for what is measured beside hostile peers.
type hostileOptions struct {
	peer   string
	storm  time.Duration
	shared bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if executor.Active() {
		is, failed := hostileExecutor(ctx)
		if err = failed; !is {
			err = executor.Run(ctx, sleep)
		}
	} else {
		err = run(ctx, parse())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/tender", "the `program` to measure")
	flag.IntVar(&o.runs, "runs", 5, "`number` of counted runs of each throughput")
	flag.IntVar(&o.tasks, "tasks", 20000, "`number` of empty tasks in a run")
	flag.IntVar(&o.spawns, "spawns", 2000, "`number` of processes in a run")
	flag.IntVar(&o.singles, "singles", 300, "`number` of single tasks for latencies")
	flag.StringVar(&o.only, "only", "", "run only what is named so: lives, spawn, latency, return, idle, commit or registry; agent (or only agent/commands, or agent/ and a word of the walls' names), failover, soak, herd, hostile, jobs, rdd (or one of it, as rdd/wordcount) or trust (or only trust/returns), which nothing else runs")
	flag.StringVar(&o.dir, "dir", "bin", "`folder` for the data of the masters and agents: on a disk like that of a real node")
	flag.DurationVar(&o.beside, "beside", 5*time.Second, "how `long` a task is watched beside each hostile one, with -only agent and as -only neighbour, which is that task")
	flag.DurationVar(&o.soak, "for", 30*time.Minute, "how `long` a soak lasts")
	flag.IntVar(&o.kills, "kills", 30, "`number` of leaders to kill")
	flag.IntVar(&o.agents, "agents", 0, "`number` of agents that are only sessions, in a herd or beside hostile peers; 0 = 10,000, 2,000 for -only trust, and none. Their process and the leader need a file descriptor for each")
	flag.DurationVar(&o.heartbeat, "heartbeat", 0, "`time` between two heartbeats of a herd's agents, or of those of -only trust; 0 = the masters' default, and for more than 2,000 with -only trust as rarely as keeps them at 2,000 a second")
	flag.StringVar(&o.masters, "masters", "", "`addresses` of the masters of -only flock and -only hostiles, processes that others of these start")
	flag.StringVar(&o.peer, "peer", "", "only the hostile peers whose `name` holds this word; -only hostile prints all names. Empty: all of them")
	flag.BoolVar(&o.shared, "shared", false, "in -only hostile the leader and the honest framework share the processors with all others. Otherwise they have one before all others, as on machines of their own, where that can be had (root; Linux)")
	flag.DurationVar(&o.storm, "storm", 10*time.Second, "how `long` each section of a turn of -only hostile takes: alone, beside hostile peers, beside busy processes")
	flag.StringVar(&o.profile, "profile", "", "`folder` for profiles of the leader's processor and memory beside hostile peers")
	flag.IntVar(&o.jobs, "jobs", 10_000, "`number` of jobs that a manager has")
	flag.BoolVar(&o.quick, "quick", false, "small data for -only rdd: a look in minutes")
	flag.StringVar(&o.key, "key", "", "`folder` with the key of a cluster with certificates, for -only flock")
	flag.BoolVar(&o.anew, "anew", false, "the agents of -only flock take up no sessions of TLS")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) error {
	alone := map[string]func(context.Context, options) error{"soak": soak, "failover": failover, "herd": herd, "flock": flockMain, "hostile": hostilePeers, "jobs": manyJobs, "rdd": smallSpark, "hostiles": hostilesMain, "busy": beBusy, "trust": trustCost, "neighbour": beNeighbour}
	name, _, _ := strings.Cut(o.only, "/")
	if part := alone[name]; part != nil {
		return part(ctx, o)
	}
	headline(o)
	if name == "agent" {
		return agentAlone(ctx, o)
	}
	if err := runWhole(ctx, o); err != nil {
		return err
	}
	for _, one := range []struct {
		name    string
		measure func(context.Context, options) error
	}{{"idle", idle}, {"commit", commit}, {"registry", bigRegistry}} {
		if o.only != "" && !strings.Contains(one.name, o.only) {
			continue
		}
		if err := one.measure(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// headline writes the beginning of the table.
func headline(o options) {
	fmt.Printf("%d cores, %s; every median is of %d runs after one warm-up\n\n", runtime.NumCPU(), runtime.Version(), o.runs)
	fmt.Println("| what | figure | beside it |")
	fmt.Println("|---|---|---|")
}

// runWhole measures what needs a whole cluster.
func runWhole(ctx context.Context, o options) error {
	if o.only != "" && !slices.ContainsFunc([]string{"lives", "spawn", "latency", "return"}, func(name string) bool {
		return strings.Contains(name, o.only)
	}) {
		return nil
	}
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: o.binary, Parent: o.dir, Insecure: true, Masters: 3, Agents: 2, Args: []string{"--agent-resources", "cpus:64;mem:65536"},
	})
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name    string
		measure func(context.Context, *devcluster.Cluster, options) error
	}{{"lives", lives}, {"spawn", spawn}, {"latency", latency}, {"return", returns}} {
		if o.only != "" && !strings.Contains(one.name, o.only) {
			continue
		}
		if err := one.measure(ctx, cluster, o); err != nil {
			_ = cluster.Stop() // the first error says more
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return cluster.Stop()
}

func row(what, figure, beside string) { fmt.Printf("| %s | %s | %s |\n", what, figure, beside) }
