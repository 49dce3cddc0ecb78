package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
)

// outbox is the bounded queue between the loop, which never waits, and one goroutine that writes. What is queued while
// a write is under way is taken as one batch. A batch that was taken does not count against the limits any more.
type outbox[T any] struct {
	limits outboxLimits
	size   func(T) int // estimates the bytes of an item
	wake   chan struct{}
	common *commonRoom // room that it shares with other outboxes; nil: it shares none

	mutex  sync.Mutex
	late   *time.Timer // signals when items have waited for long enough; nil: there was none for putLater; guarded by mutex
	items  []T         // guarded by mutex
	bytes  int         // guarded by mutex
	closed bool        // guarded by mutex
	err    *api.Error  // guarded by mutex
}

// outboxLimits limit what waits in an outbox (R34).
type outboxLimits struct{ items, bytes int }

func newOutbox[T any](limits outboxLimits, size func(T) int) *outbox[T] {
	return &outbox[T]{limits: limits, size: size, wake: make(chan struct{}, 1)}
}

// put queues an item. It returns false if the queue is full.
func (o *outbox[T]) put(item T) bool { return o.putWithin(o.limits, item) }

// putSpare queues an item that may be dropped. Such items use at most half of the queue, so that they never crowd out
// one that must arrive. It returns false if the item was dropped.
func (o *outbox[T]) putSpare(item T) bool {
	return o.putWithin(outboxLimits{o.limits.items / 2, o.limits.bytes / 2}, item)
}

func (o *outbox[T]) putWithin(limits outboxLimits, item T) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.signal()
	return o.add(limits, item)
}

// laterWait is how long an item of putLater waits.
const laterWait = 5 * time.Millisecond

// putLater queues an item for which nobody waits: it is taken with the next one, or after a moment. Otherwise it is as
// put.
func (o *outbox[T]) putLater(item T) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch {
	case len(o.items) > 0: // these are to be taken already
	case o.late == nil:
		o.late = time.AfterFunc(laterWait, o.signal)
	default:
		o.late.Reset(laterWait)
	}
	return o.add(o.limits, item)
}

// add queues an item, unless the queue is full. Callers hold mutex.
func (o *outbox[T]) add(limits outboxLimits, item T) bool {
	size := o.size(item)
	full := len(o.items) >= limits.items || o.bytes+size > limits.bytes || !o.closed && !o.common.take(size)
	if !full && !o.closed {
		o.items = append(o.items, item)
		o.bytes += size
	}
	return !full
}

// close lets what is queued be written, and refuses everything after it.
func (o *outbox[T]) close(err *api.Error) {
	o.mutex.Lock()
	if !o.closed {
		o.closed, o.err = true, err
	}
	o.mutex.Unlock()
	o.signal()
}

func (o *outbox[T]) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take waits for items. more is false with the last ones of a closed outbox, and when the context ends.
func (o *outbox[T]) take(ctx context.Context) (items []T, more bool) {
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, false
		}
		o.mutex.Lock()
		items = o.empty()
		closed := o.closed
		o.mutex.Unlock()
		if len(items) > 0 || closed {
			return items, !closed
		}
	}
}

// discard closes the outbox and drops what nobody will take any more.
func (o *outbox[T]) discard() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.closed = true
	o.empty()
}

// empty removes and returns all items. Callers hold mutex.
func (o *outbox[T]) empty() []T {
	items, bytes := o.items, o.bytes
	o.items, o.bytes = nil, 0
	o.common.give(bytes)
	return items
}

// commonRoom counts the bytes that several outboxes may still use together.
type commonRoom struct{ left atomic.Int64 }

func newCommonRoom(bytes int) *commonRoom {
	room := new(commonRoom)
	room.left.Store(int64(bytes))
	return room
}

// take reserves bytes. It returns false if not enough are left; an item of no bytes always finds room.
func (r *commonRoom) take(bytes int) bool {
	if r == nil || bytes == 0 {
		return true
	}
	if r.left.Add(-int64(bytes)) < 0 {
		r.left.Add(int64(bytes))
		return false
	}
	return true
}

func (r *commonRoom) give(bytes int) {
	if r != nil {
		r.left.Add(int64(bytes))
	}
}

func (o *outbox[T]) reason() *api.Error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.err
}
