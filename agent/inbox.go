package agent

import (
	"context"
	"sync/atomic"

	"github.com/tenderhq/tender/agent/core"
)

// inbox is the only way in to the loop: events, questions of readers, and fatal errors.
type inbox struct {
	items  chan item // bounded: a sender that is faster than the loop waits
	asks   chan func(*core.Core)
	failed chan error // the first fatal error; capacity 1
	conns  atomic.Uint64
}

// item is an event, and the stream that it brings along or takes away.
type item struct {
	what     core.Happening
	leader   *leaderLink
	executor *executorLink
	taken    chan struct{} // nil, or signalled when the loop takes the item; capacity 1
}

// inboxItemsMax limits items. When it is full, readers of streams wait, and so do those who write to these streams.
const inboxItemsMax = 4096

func newInbox() *inbox {
	return &inbox{items: make(chan item, inboxItemsMax), asks: make(chan func(*core.Core)), failed: make(chan error, 1)}
}

// post brings an item to the loop. It returns false if the agent is ending.
func (i *inbox) post(ctx context.Context, it item) bool {
	select {
	case i.items <- it:
		return true
	case <-ctx.Done():
		return false
	}
}

// postEvent brings an event without a stream to the loop.
func (i *inbox) postEvent(ctx context.Context, what core.Happening) bool {
	return i.post(ctx, item{what: what})
}

// ask lets a reader look at the core between two events. It returns false if the agent is ending.
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

// fail ends Run with the first error that is fatal. nil is no error.
func (i *inbox) fail(err error) {
	if err == nil {
		return
	}
	select {
	case i.failed <- err:
	default:
	}
}

// empty drops what came too late for the life that is over.
func (i *inbox) empty() {
	for {
		select {
		case <-i.items:
		default:
			return
		}
	}
}

// nextConn returns a number for a new stream.
func (i *inbox) nextConn() core.Conn { return core.Conn(i.conns.Add(1)) }
