package agent

import (
	"context"
	"sync/atomic"

	"github.com/tenderhq/tender/agent/core"
)

// inbox is the only way to the loop: what has happened, questions of readers, and what can't be mended.
type inbox struct {
	items  chan item // bounded: whoever is faster than the loop waits
	asks   chan func(*core.Core)
	failed chan error // the first thing that can't be mended; capacity 1
	conns  atomic.Uint64
}

// item is something that happened, and the stream that it brings along or takes away.
type item struct {
	what     core.Happening
	leader   *leaderLink
	executor *executorLink
	taken    chan struct{} // told when the loop takes the item, if it is set; capacity 1
}

// inboxItemsMax: beyond it, readers of streams wait, and with them those who write.
const inboxItemsMax = 4096

func newInbox() *inbox {
	return &inbox{items: make(chan item, inboxItemsMax), asks: make(chan func(*core.Core)), failed: make(chan error, 1)}
}

// post brings something to the loop; false when the agent is ending.
func (i *inbox) post(ctx context.Context, it item) bool {
	select {
	case i.items <- it:
		return true
	case <-ctx.Done():
		return false
	}
}

// postEvent brings something that has happened, and no stream with it.
func (i *inbox) postEvent(ctx context.Context, what core.Happening) bool {
	return i.post(ctx, item{what: what})
}

// ask lets a reader look at the core between two events; false when the agent is ending.
func (i *inbox) ask(ctx context.Context, look func(*core.Core)) bool {
	done := make(chan struct{})
	select {
	case i.asks <- func(c *core.Core) { look(c); close(done) }:
		<-done
		return true
	case <-ctx.Done():
		return false
	}
}

// fail ends Run with the first thing that can't be mended. No error is none.
func (i *inbox) fail(err error) {
	if err == nil {
		return
	}
	select {
	case i.failed <- err:
	default:
	}
}

// empty forgets what came too late for the life that is over.
func (i *inbox) empty() {
	for {
		select {
		case <-i.items:
		default:
			return
		}
	}
}

// nextConn names a new stream.
func (i *inbox) nextConn() core.Conn { return core.Conn(i.conns.Add(1)) }
