package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/usage"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// sampling measures what executors and tasks really use.
type sampling struct {
	sampler usage.Sampler
	asked   chan []core.Target                   // capacity 1: the core asks for one at a time
	last    atomic.Pointer[protocol.UsageReport] // nil: none was taken yet. Nobody changes it
}

func (s *sampling) begin(sampler usage.Sampler) {
	s.sampler, s.asked = sampler, make(chan []core.Target, 1)
	if sampler == nil {
		s.sampler = usage.New(nil)
	}
}

// ask has a sample taken, unless one is waiting to be taken already.
func (s *sampling) ask(targets []core.Target) {
	select {
	case s.asked <- targets:
	default:
	}
}

// run measures when the core asks. To keep measuring below a twentieth of one processor, it waits after a slow sample.
func (s *sampling) run(ctx context.Context, inbox *inbox) {
	const share = 20
	for {
		var targets []core.Target
		select {
		case targets = <-s.asked:
		case <-ctx.Done():
			return
		}
		begin := time.Now()
		used := s.sampler.Sample(begin, targets)
		took := time.Since(begin)
		s.last.Store(&used)
		if !inbox.postEvent(ctx, core.Sampled{Usage: used}) {
			return
		}
		if took > 0 && !pause.For(ctx, share*took) { // at 0 the clock stood still
			return
		}
	}
}
