package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/tenderhq/tender/tools/devcluster"
)

// start measures how long somebody waits who types: for a cluster of one master and one agent, and for a command in it.
func start(ctx context.Context, o options) error {
	var ready, ran []time.Duration
	for range o.runs + 1 {
		began := time.Now()
		cluster, err := devcluster.Start(ctx, devcluster.Options{Binary: o.binary, Parent: o.dir, Insecure: o.insecure})
		if err != nil {
			return err
		}
		ready = append(ready, time.Since(began))
		for range 10 {
			began = time.Now()
			if said, err := exec.CommandContext(ctx, o.binary, "run", "--master", cluster.MasterAddresses(), "--", "true").CombinedOutput(); err != nil {
				_ = cluster.Stop() // the first error says more
				return fmt.Errorf("tender run: %w: %s", err, said)
			}
			ran = append(ran, time.Since(began))
		}
		if err := cluster.Stop(); err != nil {
			return err
		}
	}
	up, done := quantile(ready[1:], 0.5), quantile(ran[1:], 0.5)
	row("tender dev is ready", fmt.Sprintf("%.0f ms", ms(up)), fmt.Sprintf("median of %d starts", len(ready)-1))
	row("tender run -- true", fmt.Sprintf("%.0f ms", ms(done)), fmt.Sprintf("median of %d, p99 %.0f ms", len(ran)-1, ms(quantile(ran[1:], 0.99))))
	atMost("ms until tender dev is ready", ms(up), 500)
	atMost("ms of tender run -- true", ms(done), 40)
	return nil
}
