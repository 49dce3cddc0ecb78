// Package outbox is between the loop of a master and the streams of its peers: what waits to be sent, and how long a
// peer may take to read it. The loop never waits for a peer; a peer that reads too slowly loses its stream. (Protocol
// rule R34.)
package outbox

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
	// messagesBytesMax bounds the messages between executors and frameworks among them, or one of these. They travel at
	// most once: what is more is dropped and counted, and nobody's stream ends for what others send him.
	messagesBytesMax = 4 << 20
	// takeEventsMax and takeBytesMax are how much of it a writer makes into messages at once,
	// so that only so much of it is in memory twice.
	takeEventsMax = 1024
	takeBytesMax  = 256 << 10
)

// Queue is between the loop, which puts, and a stream's writer, which takes all there
// is. The loop never waits for a stream.
type Queue[E any] struct {
	size     func(E) int  // estimates the bytes of an event
	once     func(E) bool // it travels at most once, and may be dropped
	wake     chan struct{}
	ended    chan struct{} // closed: nothing comes after what is queued
	overflow chan struct{} // closed: too much waited, and nothing of it is sent any more

	mu     sync.Mutex
	events []E   // guarded by mu
	bytes  int   // guarded by mu
	loose  int   // bytes of those that may be dropped; guarded by mu
	closed bool  // no more comes; guarded by mu
	err    error // why; guarded by mu
}

// New estimates the bytes of each event by size; once says which ones travel at most once.
func New[E any](size func(E) int, once func(E) bool) *Queue[E] {
	return &Queue[E]{size: size, once: once, wake: make(chan struct{}, 1), ended: make(chan struct{}), overflow: make(chan struct{})}
}

// first cuts off what is taken at once. Callers hold mu.
func (q *Queue[E]) first() []E {
	n, bytes := 0, 0
	for n < min(len(q.events), takeEventsMax) && bytes < takeBytesMax {
		size := q.size(q.events[n])
		if q.once(q.events[n]) {
			q.loose -= size
		}
		bytes += size
		n++
	}
	first := q.events[:n:n]
	if q.events, q.bytes = q.events[n:], q.bytes-bytes; len(q.events) == 0 {
		q.events = nil
	}
	return first
}

// Putting is what became of an event.
type Putting int

// What Put reports.
const (
	PutBehind  Putting = iota // others; or the queue is closed
	PutFirst                  // the writer must be woken by Flush
	PutTooMuch                // the queue has just run over: its stream is to be given up
	PutDropped                // nothing: too much waits of what travels at most once
)

// Put queues an event.
func (q *Queue[E]) Put(event E) Putting {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return PutBehind
	}
	size := q.size(event)
	if q.once(event) {
		if q.loose > 0 && q.loose+size > messagesBytesMax {
			return PutDropped
		}
		q.loose += size
	}
	q.bytes += size
	if len(q.events) >= queueEventsMax || q.bytes > queueBytesMax {
		q.closed = true
		q.err = api.E("session", api.Limit, "", errors.New("events were taken too slowly; come back"))
		q.events = nil
		close(q.overflow)
		return PutTooMuch
	}
	q.events = append(q.events, event)
	if len(q.events) == 1 {
		return PutFirst
	}
	return PutBehind
}

// Why is the reason of the end: of kind Limit when the peer took too little.
func (q *Queue[E]) Why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// Flush wakes the writer.
func (q *Queue[E]) Flush() {
	select {
	case q.wake <- struct{}{}:
	default: // the writer is on its way
	}
}

// Close ends the stream after what is queued.
func (q *Queue[E]) Close(err *api.Error) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.ended)
		if err != nil {
			q.err = err
		}
	}
	q.mu.Unlock()
	q.Flush()
}

// take returns the first of the events, at most takeEventsMax or about takeBytesMax; none when nothing waits. At the end
// it returns what is left in the same way, and with the last of it done and the reason.
func (q *Queue[E]) take() (events []E, done bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events = q.first()
	if done = q.closed && len(q.events) == 0; done {
		err = q.err
	}
	return events, done, err
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

// Patience ends when one message has waited for too long.
type Patience struct {
	over chan struct{} // closed at the end
	once sync.Once
}

func newPatience() *Patience { return &Patience{over: make(chan struct{})} }

// During gives what sends one message its time.
func (p *Patience) During(send func() error) error {
	timer := time.AfterFunc(sendTimeMax, func() { p.once.Do(func() { close(p.over) }) })
	defer timer.Stop()
	return send()
}

func tooSlow(op string) *api.Error {
	return api.E(op, api.Limit, "", errors.New("nothing was read for "+sendTimeMax.String()+"; come back"))
}

// Serving is what streams are sent for: a leadership.
type Serving struct {
	Beside func(run func())           // runs what belongs to a stream beside its handler
	Over   <-chan struct{}            // closed when it serves nobody any more
	Ended  func(op string) *api.Error // what is said to a stream then
}

// WriteAll sends what is queued until the stream is closed, and returns why. It does not
// wait for a peer whose queue has run over.
func WriteAll[E any](ctx context.Context, s Serving, q *Queue[E], send func(*Patience, []E) error) error {
	slow, sent := newPatience(), make(chan written, 1)
	write := func() { sent <- sendQueued(q, func(events []E) error { return send(slow, events) }) }
	why := func() error {
		if err := q.Why(); err != nil {
			return err
		}
		return s.Ended("session")
	}
	var last <-chan time.Time // the stream is over, and what is left has until then
	wake, ended, over := q.wake, q.ended, s.Over
	for {
		select {
		case <-wake:
			wake = nil
			s.Beside(write)
		case w := <-sent:
			if w.done {
				return w.err
			}
			wake = q.wake
		case <-ended:
			ended, last = nil, time.After(lastSendTimeMax)
		case <-over:
			over, last = nil, time.After(lastSendTimeMax)
		case <-slow.over:
			q.Close(tooSlow("session"))
			return why()
		case <-q.overflow:
			return why()
		case <-last:
			return why()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// written is how a writer has ended.
type written struct {
	done bool // nothing is to be sent any more
	err  error
}

// sendQueued sends until nothing is queued.
func sendQueued[E any](q *Queue[E], send func([]E) error) written {
	for {
		select {
		case <-q.wake: // for what is taken now
		default:
		}
		events, done, err := q.take()
		if len(events) > 0 {
			if err := send(events); err != nil {
				return written{done: true, err: err}
			}
		}
		if done || len(events) == 0 {
			return written{done, err}
		}
	}
}

// last gives the last messages of a stream their time; false when they take longer.
func (p *Patience) last(sent <-chan error) (ended bool, err error) {
	timer := time.NewTimer(lastSendTimeMax)
	defer timer.Stop()
	select {
	case err = <-sent:
		return true, err
	case <-p.over:
	case <-timer.C:
	}
	return false, nil
}

// SendUntil runs what sends on a stream until it ends, a message waits for too long, or
// the leadership is over; then the last messages have their time.
func SendUntil(s Serving, op string, run func(*Patience) error) error {
	slow, sent := newPatience(), make(chan error, 1)
	s.Beside(func() { sent <- run(slow) })
	select {
	case err := <-sent:
		return err
	case <-slow.over:
		return tooSlow(op)
	case <-s.Over:
	}
	if ended, err := slow.last(sent); ended {
		return err
	}
	return s.Ended(op)
}
