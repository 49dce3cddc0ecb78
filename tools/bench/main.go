// Command bench measures whole clusters on this machine through the public SDK. Each figure is the median of several
// runs after a warm-up, and what can be is measured beside a reference in the same run.
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

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/tools/devcluster"
)

// options are the values of the flags.
type options struct {
	binary    string
	only      string
	dir       string
	runs      int
	tasks     int
	spawns    int
	singles   int
	agents    int
	heartbeat time.Duration
	insecure  bool
	peer      string
	storm     time.Duration
	masters   string
	key       string
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
			err = executor.Run(ctx, noop)
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
	flag.StringVar(&o.only, "only", "", "measure only what is `named` so: "+names()+"; agent may be followed by / and a word of the walls' names")
	flag.StringVar(&o.dir, "dir", "bin", "`folder` for the data of masters and agents: on a disk like that of a real node")
	flag.IntVar(&o.runs, "runs", 5, "`number` of counted runs of each throughput, kills of -only herd, turns of -only hostile and -only looked")
	flag.IntVar(&o.tasks, "tasks", 20000, "`number` of empty tasks in a run")
	flag.IntVar(&o.spawns, "spawns", 2000, "`number` of processes in a run")
	flag.IntVar(&o.singles, "singles", 300, "`number` of single tasks for latencies")
	flag.IntVar(&o.agents, "agents", 0, "`number` of agents that are only sessions: 10,000 in a herd and where somebody looks (0), none beside hostile peers (0). Their process and the leader need a file descriptor for each")
	flag.DurationVar(&o.heartbeat, "heartbeat", 0, "`time` between two heartbeats of a herd's agents; 0 = the masters' default, where somebody looks 5s")
	flag.BoolVar(&o.insecure, "insecure", false, "clusters without certificates")
	flag.StringVar(&o.peer, "peer", "", "only the hostile peers whose `name` holds this word; -only hostile prints all names")
	flag.DurationVar(&o.storm, "storm", 10*time.Second, "how `long` each half of a turn of -only hostile takes: alone, and beside hostile peers")
	flag.StringVar(&o.masters, "masters", "", "`addresses` of masters, for the processes that a herd and hostile peers are")
	flag.StringVar(&o.key, "key", "", "`folder` with the key of a cluster with certificates, for such a process")
	flag.Parse()
	return o
}

// part is something that is measured. One that is apart runs only if it is named.
type part struct {
	name    string
	apart   bool
	measure func(context.Context, options) error
}

func parts() []part {
	return []part{
		{"start", false, start},
		{"lives", false, inCluster(lives)},
		{"spawn", false, inCluster(spawn)},
		{"latency", false, inCluster(latency)},
		{"idle", false, idle},
		{"commit", false, commit},
		{"watch", true, watch},
		{"agent", true, agentAlone},
		{"herd", true, herd},
		{"steady", true, steadyHerd},
		{"looked", true, lookedAt},
		{"memory", true, leaderMemory},
		{"mesos", true, throughGateway},
		{"hostile", true, hostilePeers},
	}
}

func names() string {
	var all []string
	for _, p := range parts() {
		all = append(all, p.name)
	}
	return strings.Join(all, ", ")
}

func run(ctx context.Context, o options) error {
	name, _, _ := strings.Cut(o.only, "/")
	switch name {
	case "flock": // a process that a herd starts
		return flockMain(ctx, o)
	case "told": // a process that bareTold starts
		return toldMain(ctx, o)
	case "bare": // a process that startBare starts
		return bareMain(ctx, o)
	case "hostiles": // a process that hostilePeers starts
		return hostilesMain(ctx, o)
	}
	chosen := slices.DeleteFunc(parts(), func(p part) bool { return name != p.name && (name != "" || p.apart) })
	if len(chosen) == 0 {
		return fmt.Errorf("nothing is named %q; there are %s", name, names())
	}
	fmt.Printf("%d cores, %s; load %.1f; every median is of %d runs after one warm-up\n\n", runtime.NumCPU(), runtime.Version(), machineLoad(), o.runs)
	fmt.Println("| what | figure | beside it |")
	fmt.Println("|---|---|---|")
	for _, p := range chosen {
		if err := p.measure(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	showAims()
	fmt.Printf("\nload %.1f afterwards\n", machineLoad())
	return nil
}

// inCluster returns a part that measures in a cluster of three durable masters and two agents.
func inCluster(measure func(context.Context, *devcluster.Cluster, options) error) func(context.Context, options) error {
	return func(ctx context.Context, o options) error {
		args := []string{"--agent-resources", "cpus:64;mem:65536"}
		if os.Geteuid() == 0 { // as `tender agent` does by default; dev runs tasks as whoever works with it
			args = append(args, "--task-user", entry.Dynamic)
		}
		cluster, err := devcluster.Start(ctx, devcluster.Options{Binary: o.binary, Parent: o.dir, Insecure: o.insecure, Masters: 3, Agents: 2, Args: args})
		if err != nil {
			return err
		}
		if err := measure(ctx, cluster, o); err != nil {
			_ = cluster.Stop() // the first error says more
			return err
		}
		return cluster.Stop()
	}
}

func row(what, figure, beside string) { fmt.Printf("| %s | %s | %s |\n", what, figure, beside) }
