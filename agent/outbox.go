package agent

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/api"
)

// outbox is the bounded queue between the loop, which never waits, and one goroutine
// that writes. What gathers while a write is under way goes out as one batch.
type outbox[T any] struct {
	mutex  sync.Mutex
	items  []T
	max    int
	closed bool
	err    *api.Error
	wake   chan struct{}
}

func newOutbox[T any](limit int) *outbox[T] {
	return &outbox[T]{max: limit, wake: make(chan struct{}, 1)}
}

// put queues an item; false when the queue is full.
func (o *outbox[T]) put(item T) bool {
	o.mutex.Lock()
	full := len(o.items) >= o.max
	if !full && !o.closed {
		o.items = append(o.items, item)
	}
	o.mutex.Unlock()
	o.signal()
	return !full
}

// close lets what is queued go out, and nothing after it.
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

// take waits for items. more is false after the last ones, or when the context ends.
func (o *outbox[T]) take(ctx context.Context) (items []T, more bool) {
	for {
		o.mutex.Lock()
		items, o.items = o.items, nil
		closed := o.closed
		o.mutex.Unlock()
		if len(items) > 0 || closed {
			return items, !closed
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (o *outbox[T]) reason() *api.Error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.err
}
