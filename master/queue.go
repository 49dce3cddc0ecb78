package master

import (
	"context"
	"errors"
	"sync"

	"github.com/tenderhq/tender/api"
)

const (
	// queueEventsMax and queueBytesMax bound what waits for one stream. Full: the stream
	// is cut off, whatever its owner still says; it comes back and hears how things stand.
	queueEventsMax = 16384
	queueBytesMax  = 64 << 20
	// takeEventsMax and takeBytesMax are how much of it a writer makes into messages at once,
	// so that only so much of it is in memory twice.
	takeEventsMax = 1024
	takeBytesMax  = 256 << 10
)

// queue is between the loop, which puts, and a stream's writer, which takes all there
// is. The loop never waits for a stream.
type queue[E any] struct {
	size     func(E) int // estimates the bytes of an event
	wake     chan struct{}
	ended    chan struct{} // closed: nothing comes after what is queued
	overflow chan struct{} // closed: too much waited, and nothing of it is sent any more

	mu     sync.Mutex
	events []E   // guarded by mu
	bytes  int   // guarded by mu
	closed bool  // no more comes; guarded by mu
	err    error // why; guarded by mu
}

func newQueue[E any](size func(E) int) *queue[E] {
	return &queue[E]{size: size, wake: make(chan struct{}, 1), ended: make(chan struct{}), overflow: make(chan struct{})}
}

// first cuts off what is taken at once. Callers hold mu.
func (q *queue[E]) first() []E {
	n, bytes := 0, 0
	for n < min(len(q.events), takeEventsMax) && bytes < takeBytesMax {
		bytes += q.size(q.events[n])
		n++
	}
	first := q.events[:n:n]
	if q.events, q.bytes = q.events[n:], q.bytes-bytes; len(q.events) == 0 {
		q.events = nil
	}
	return first
}

// putting is what became of an event.
type putting int

const (
	putBehind  putting = iota // others; or the queue is closed
	putFirst                  // the writer must be woken by flush
	putTooMuch                // the queue has just run over: its stream is to be given up
)

// put queues an event.
func (q *queue[E]) put(event E) putting {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return putBehind
	}
	q.bytes += q.size(event)
	if len(q.events) >= queueEventsMax || q.bytes > queueBytesMax {
		q.closed = true
		q.err = api.E("session", api.Limit, "", errors.New("events were taken too slowly; come back"))
		q.events = nil
		close(q.overflow)
		return putTooMuch
	}
	q.events = append(q.events, event)
	if len(q.events) == 1 {
		return putFirst
	}
	return putBehind
}

// cutOff is why the core shall hear that the stream is over, when its peer was given up
// for what it did not take; empty: for no reason of ours.
func (q *queue[E]) cutOff() string {
	if api.Is(q.why(), api.Limit) {
		return tookTooLittle
	}
	return ""
}

// why is the reason of the end.
func (q *queue[E]) why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *queue[E]) flush() {
	select {
	case q.wake <- struct{}{}:
	default: // the writer is on its way
	}
}

// close ends the stream after what is queued.
func (q *queue[E]) close(err *api.Error) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.ended)
		if err != nil {
			q.err = err
		}
	}
	q.mu.Unlock()
	q.flush()
}

// take waits for events and returns the first of them, at most takeEventsMax or about takeBytesMax. At the end it
// returns what is left in the same way, and with the last of it done and the reason.
func (q *queue[E]) take(ctx context.Context) (events []E, done bool, err error) {
	for {
		q.mu.Lock()
		events = q.first()
		if done = q.closed && len(q.events) == 0; done {
			err = q.err
		}
		q.mu.Unlock()
		if len(events) > 0 || done {
			return events, done, err
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, true, ctx.Err()
		}
	}
}
