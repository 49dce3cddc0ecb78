package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/pause"
)

// soak puts full load on three masters, processes of their own, for as long as is wanted. It reports how often a new
// term began: nothing is broken, so there should be none.
func soak(ctx context.Context, o options) (err error) {
	self, err := executor.Self("noop")
	if err != nil {
		return err
	}
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: o.binary, Parent: o.dir, Insecure: true, Masters: 3, Agents: 2, Processes: true, Args: []string{"--agent-resources", "cpus:64;mem:65536"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, o.soak)
	defer cancel()
	watched := make(chan terms, 1)
	go func() { watched <- watchTerms(ctx, cluster) }()
	work := &load{task: func(int) api.Task { return api.Task{Executor: self} }, total: math.MaxInt, window: 2000}
	began := time.Now()
	if err := runLoad(ctx, cluster, work); ctx.Err() == nil {
		return err
	}
	if work.failure != nil {
		return work.failure
	}
	seen := <-watched
	row(fmt.Sprintf("elections that nothing caused, in %v of full load", time.Since(began).Round(time.Second)),
		fmt.Sprintf("%d (term %d at the begin, %d at the end)%s", seen.last-seen.first, seen.first, seen.last, strings.Join(seen.when, "")),
		fmt.Sprintf("%d tasks; load of the machine %.0f (%.0f to %.0f)", work.done, median(seen.loads), slices.Min(seen.loads), slices.Max(seen.loads)))
	return nil
}

// terms is what masters reported while they were watched.
type terms struct {
	first, last uint64
	when        []string // when each change was seen
	loads       []float64
}

func watchTerms(ctx context.Context, cluster *devcluster.Cluster) (seen terms) {
	began := time.Now()
	for ; ; pause.For(ctx, time.Second) {
		for _, master := range cluster.Masters {
			term := termOf(ctx, master.GRPC)
			if term > seen.last && seen.last > 0 {
				seen.when = append(seen.when, fmt.Sprintf(", term %d after %v", term, time.Since(began).Round(time.Second)))
			}
			seen.last = max(seen.last, term)
			if seen.first == 0 {
				seen.first = term
			}
		}
		seen.loads = append(seen.loads, machineLoad())
		if ctx.Err() != nil {
			return seen
		}
	}
}

// termOf returns Raft's term as a master knows it; 0 if the master does not answer.
func termOf(ctx context.Context, address string) uint64 {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0
	}
	defer conn.Close()
	answer, err := apiv1.NewRaftServiceClient(conn).ListPeers(ctx, &apiv1.ListPeersRequest{})
	if err != nil {
		return 0
	}
	return answer.GetTerm().GetNumber()
}

// machineLoad returns how many processes wanted to run during the last minute, on average.
func machineLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	load, _ := strconv.ParseFloat(strings.Fields(string(text))[0], 64) // the kernel writes numbers
	return load
}
