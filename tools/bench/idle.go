package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/tools/devcluster"
)

// idleTime is how long the roles are watched while nothing happens.
const idleTime = 20 * time.Second

// idle reports what each role costs while nothing happens: masters and agents as processes of their own.
func idle(ctx context.Context, o options) error {
	cluster, err := devcluster.Start(ctx, devcluster.Options{Binary: o.binary, Parent: o.dir, Masters: 3, Agents: 1, Processes: true, Args: []string{"--agent-processes"}})
	if err != nil {
		return err
	}
	type role struct {
		pid    int
		before float64 // CPU
		mostMB float64 // the aim
	}
	roles := map[string]role{"agent": {cluster.Agents[0].PID, ownCPU(cluster.Agents[0].PID), 18}}
	for _, master := range cluster.Masters {
		roles["master "+master.ID] = role{master.PID, ownCPU(master.PID), 22}
	}
	select {
	case <-ctx.Done():
	case <-time.After(idleTime):
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		is := roles[name]
		size, used := residentMB(is.pid), (ownCPU(is.pid)-is.before)/idleTime.Seconds()
		row("idle: "+name, fmt.Sprintf("%.0f MB resident", size), fmt.Sprintf("%.0f MB of its own; %.1f %% of a core", ownMB(is.pid), used*100))
		atMost("MB of an idle "+name, size, is.mostMB)
	}
	return cluster.Stop()
}
