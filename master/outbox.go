package master

import (
	"context"
	"errors"
	"sync"
	"time"

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

// A Send to a peer that does not read waits for ever, and nothing beside it can interrupt
// it: it ends when the handler of its stream returns. So a goroutine of its own sends, and
// the handler waits for that one's end, or for a reason to wait no longer.

const (
	// sendTimeMax is how long one message may wait for its peer to read. Longer: the peer
	// loses its stream.
	sendTimeMax = 30 * time.Second
	// lastSendTimeMax is how long the last messages of a stream that is over may take
	// together. Longer: the peer does not get them.
	lastSendTimeMax = 5 * time.Second
)

// patience ends when one message has waited for too long.
type patience struct {
	over chan struct{} // closed at the end
	once sync.Once
}

func newPatience() *patience { return &patience{over: make(chan struct{})} }

// during gives what sends one message its time.
func (p *patience) during(send func() error) error {
	timer := time.AfterFunc(sendTimeMax, func() { p.once.Do(func() { close(p.over) }) })
	defer timer.Stop()
	return send()
}

func tooSlow(op string) *api.Error {
	return api.E(op, api.Limit, "", errors.New("nothing was read for "+sendTimeMax.String()+"; come back"))
}

// writeAll sends what is queued until the stream is closed, and returns why. It does not
// wait for a peer whose queue has run over.
func writeAll[E any](ctx context.Context, l *leader, q *queue[E], send func(*patience, []E) error) error {
	slow, sent := newPatience(), make(chan error, 1)
	l.beside(func() { sent <- sendQueued(ctx, q, func(events []E) error { return send(slow, events) }) })
	select {
	case err := <-sent:
		return err
	case <-slow.over:
		q.close(tooSlow("session"))
		return q.why()
	case <-q.overflow:
		return q.why()
	case <-q.ended:
	case <-l.over:
	}
	last := time.NewTimer(lastSendTimeMax)
	defer last.Stop()
	select {
	case err := <-sent:
		return err
	case <-slow.over:
	case <-last.C:
	}
	if err := q.why(); err != nil {
		return err
	}
	return l.master.notLeader("session")
}

// sendQueued sends until the queue is closed, and returns why.
func sendQueued[E any](ctx context.Context, q *queue[E], send func([]E) error) error {
	for {
		events, done, err := q.take(ctx)
		if len(events) > 0 {
			if sendErr := send(events); sendErr != nil {
				return sendErr
			}
		}
		if done {
			return err
		}
	}
}

// sendUntil runs what sends on a stream until it ends, a message waits for too long, or
// this leadership is over; then the last messages have their time.
func (l *leader) sendUntil(op string, run func(*patience) error) error {
	slow, sent := newPatience(), make(chan error, 1)
	l.beside(func() { sent <- run(slow) })
	select {
	case err := <-sent:
		return err
	case <-slow.over:
		return tooSlow(op)
	case <-l.over:
	}
	last := time.NewTimer(lastSendTimeMax)
	defer last.Stop()
	select {
	case err := <-sent:
		return err
	case <-slow.over:
	case <-last.C:
	}
	return l.master.notLeader(op)
}
