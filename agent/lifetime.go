package agent

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/life"
)

// lifetime is the present life of the agent's core, and what ends with it. A new one takes its place once everything that
// this one has started has ended.
type lifetime struct {
	context context.Context //nolint:containedctx // effects start work that ends with the core
	disk    *writer         // writes the checkpoint
	core    *core.Core      // the loop's goroutine only
	life    *life.Life      // the loop's goroutine only
	running sync.WaitGroup  // everything that was started in it and has not ended
}

// start runs something that ends with this life.
func (t *lifetime) start(run func()) { t.running.Go(run) }
