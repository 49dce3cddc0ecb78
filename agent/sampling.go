package agent

import (
	"context"
	"time"

	"github.com/tenderhq/tender/agent/core"
)

// takeSamples measures when the core asks. Measuring never takes more than a
// twentieth of one processor: after a slow sample the next one waits.
func (a *Agent) takeSamples(ctx context.Context) {
	const share = 20
	for {
		var targets []core.Target
		select {
		case targets = <-a.samples:
		case <-ctx.Done():
			return
		}
		begin := time.Now()
		usage := a.sampler.Sample(begin, targets)
		took := time.Since(begin)
		if !a.happened(ctx, core.Sampled{Usage: usage}) {
			return
		}
		if took == 0 { // by a clock that stood still
			continue
		}
		select {
		case <-time.After(share * took):
		case <-ctx.Done():
			return
		}
	}
}
