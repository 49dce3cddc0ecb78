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
	roles := map[string]int{"an agent": cluster.Agents[0].PID}
	for _, master := range cluster.Masters {
		roles["master "+master.ID] = master.PID
	}
	before := map[string]float64{}
	for name, pid := range roles {
		before[name] = ownCPU(pid)
	}
	select {
	case <-ctx.Done():
	case <-time.After(idleTime):
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		used := (ownCPU(roles[name]) - before[name]) / idleTime.Seconds()
		row("idle: "+name, fmt.Sprintf("%.0f MB resident", residentMB(roles[name])), fmt.Sprintf("%.1f %% of a core", used*100))
	}
	return cluster.Stop()
}
