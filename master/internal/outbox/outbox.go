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
	// queueEventsMax and queueBytesMax bound what waits for one stream. When it is full, the stream is cut off,
	// whatever else its owner sends; the owner connects again and is told the current state.
	queueEventsMax = 16384
	queueBytesMax  = 64 << 20
	// messagesBytesMax bounds the messages between executors and frameworks in a queue; a single message may be larger.
	// They are delivered at most once. Further messages are dropped and counted, so that a stream does not end because
	// of what others send to it.
	messagesBytesMax = 4 << 20
	// takeEventsMax and takeBytesMax bound how much of a queue a writer makes into messages at once, because that much
	// of it is in memory twice.
	takeEventsMax = 1024
	takeBytesMax  = 256 << 10
)

// Queue is between the loop, which puts events, and a stream's writer, which takes them. The loop never waits for a
// stream.
type Queue[E any] struct {
	size     func(E) int  // estimates the bytes of an event
	once     func(E) bool // reports whether an event is delivered at most once, so that it may be dropped
	wake     chan struct{}
	ended    chan struct{} // closed when nothing comes after what is queued
	overflow chan struct{} // closed when too much waited; then nothing of it is sent any more

	mu     sync.Mutex
	events []E   // guarded by mu
	bytes  int   // guarded by mu
	loose  int   // bytes of the events that may be dropped; guarded by mu
	closed bool  // nothing more is queued; guarded by mu
	err    error // the reason; guarded by mu
}

// New makes a queue. The function size estimates the bytes of an event; once reports whether an event is delivered at
// most once.
func New[E any](size func(E) int, once func(E) bool) *Queue[E] {
	return &Queue[E]{size: size, once: once, wake: make(chan struct{}, 1), ended: make(chan struct{}), overflow: make(chan struct{})}
}

// first removes the events that a writer takes at once. Callers hold mu.
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

// Putting is the result of Put.
type Putting int

// The results of Put.
const (
	PutBehind  Putting = iota // queued behind other events; or the queue is closed
	PutFirst                  // queued first: the writer must be woken by Flush
	PutTooMuch                // the queue has just run over, so its stream must be given up
	PutDropped                // dropped: too much waits that is delivered at most once
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

// Why returns why the stream ends. The error has kind Limit when the peer read too slowly.
func (q *Queue[E]) Why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// Flush wakes the writer.
func (q *Queue[E]) Flush() {
	select {
	case q.wake <- struct{}{}:
	default: // the writer is going to look anyway
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

// take returns the first events, at most takeEventsMax or about takeBytesMax; none when nothing waits. After Close it
// returns what is left in the same way; with the last events it returns done and the reason.
func (q *Queue[E]) take() (events []E, done bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events = q.first()
	if done = q.closed && len(q.events) == 0; done {
		err = q.err
	}
	return events, done, err
}

// A Send to a peer that does not read waits forever. It ends only when the handler of its stream returns; nothing else
// can interrupt it. So another goroutine sends, and the handler waits for the end of that goroutine, or for a reason
// not to wait any longer.

const (
	// sendTimeMax is how long one message may wait for its peer to read it. After that the peer loses its stream.
	sendTimeMax = 30 * time.Second
	// lastSendTimeMax is how long the last messages of an ended stream may take together. After that the peer does not
	// get them.
	lastSendTimeMax = 5 * time.Second
)

// Patience ends when one message has waited for too long.
type Patience struct {
	over chan struct{} // closed when it ends
	once sync.Once
}

func newPatience() *Patience { return &Patience{over: make(chan struct{})} }

// During runs send, which sends one message, and ends the patience if that takes longer than sendTimeMax.
func (p *Patience) During(send func() error) error {
	timer := time.AfterFunc(sendTimeMax, func() { p.once.Do(func() { close(p.over) }) })
	defer timer.Stop()
	return send()
}

func tooSlow(op string) *api.Error {
	return api.E(op, api.Limit, "", errors.New("nothing was read for "+sendTimeMax.String()+"; come back"))
}

// Serving describes the leadership for which streams are sent.
type Serving struct {
	Beside func(run func())           // runs a goroutine of a stream beside its handler
	Over   <-chan struct{}            // closed when the leadership has ended
	Ended  func(op string) *api.Error // the error for a stream after that
}

// WriteAll sends what is queued until the stream is closed, and returns why it was. It does not wait for a peer whose
// queue has run over.
func WriteAll[E any](ctx context.Context, s Serving, q *Queue[E], send func(*Patience, []E) error) error {
	slow, sent := newPatience(), make(chan written, 1)
	write := func() { sent <- sendQueued(q, func(events []E) error { return send(slow, events) }) }
	why := func() error {
		if err := q.Why(); err != nil {
			return err
		}
		return s.Ended("session")
	}
	var last <-chan time.Time // when the stream is over, what is left may take until then
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

// written says how a writer has ended.
type written struct {
	done bool // nothing more is to be sent
	err  error
}

// sendQueued sends until nothing is queued.
func sendQueued[E any](q *Queue[E], send func([]E) error) written {
	for {
		select {
		case <-q.wake: // the wake-up was for what is taken now
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

// last waits for the last messages of a stream; false when they take too long.
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

// SendUntil calls run, which sends on a stream, until run returns, a message waits for too long, or the leadership
// ends. In the last case the last messages get lastSendTimeMax.
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
