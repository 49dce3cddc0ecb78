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

// Queue is between the loop, which puts events, and a stream. The loop never waits for a stream: while there is something
// to send, a goroutine sends it.
type Queue[E any] struct {
	size  func(E) int  // estimates the bytes of an event
	once  func(E) bool // reports whether an event is delivered at most once, so that it may be dropped
	out   Stream[E]
	ended chan struct{} // closed when nothing more is sent

	mu      sync.Mutex
	events  []E         // guarded by mu, as all below
	bytes   int         // of the events
	loose   int         // bytes of the events that may be dropped
	sending bool        // a goroutine sends
	closed  bool        // nothing more is queued
	over    bool        // nothing more is sent
	err     error       // why it is closed
	last    *time.Timer // ends a closed queue whose peer takes too long for what is left; nil: it is not closed
}

// Stream is where the events of a queue go.
type Stream[E any] struct {
	Beside func(run func())                       // runs a goroutine beside the stream's handler
	Send   func(slow *Patience, events []E) error // one call at a time
	// HangUp, if set, is called once when nothing more is sent, with the reason.
	HangUp func(why error)
}

// New makes a queue. The function size estimates the bytes of an event; once reports whether an event is delivered at
// most once.
func New[E any](size func(E) int, once func(E) bool, out Stream[E]) *Queue[E] {
	return &Queue[E]{size: size, once: once, out: out, ended: make(chan struct{})}
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
	PutFirst                  // queued first: it is sent after Flush
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
		q.out.Beside(func() { q.end(nil) })
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

// Flush has what is queued sent.
func (q *Queue[E]) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.sending && !q.over && (q.closed || len(q.events) > 0) {
		q.sending = true
		q.out.Beside(q.send)
	}
}

// Close ends the stream after what is queued, which may take lastSendTimeMax.
func (q *Queue[E]) Close(err *api.Error) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		if err != nil {
			q.err = err
		}
		q.last = time.AfterFunc(lastSendTimeMax, func() { q.end(nil) })
	}
	q.mu.Unlock()
	q.Flush()
}

// Wait returns why the stream has ended, when nothing more is sent.
func (q *Queue[E]) Wait(ctx context.Context) error {
	select {
	case <-q.ended:
		return q.Why()
	case <-ctx.Done():
	}
	select {
	case <-q.ended: // that has ended ctx
		return q.Why()
	default:
		return ctx.Err()
	}
}

// send sends until nothing is queued, and ends a closed queue.
func (q *Queue[E]) send() {
	slow := newPatience(func() { q.end(tooSlow("session")) })
	for {
		events, done := q.take()
		if len(events) > 0 {
			if err := q.out.Send(slow, events); err != nil {
				q.end(err)
				return
			}
		}
		if done {
			q.end(nil)
		}
		if done || len(events) == 0 {
			return
		}
	}
}

// take returns the first events, at most takeEventsMax or about takeBytesMax; none when nothing waits. After Close it
// returns what is left in the same way, and done with the last of it.
func (q *Queue[E]) take() (events []E, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events = q.first()
	q.sending = len(events) > 0
	return events, q.closed && len(q.events) == 0
}

// end ends the stream, whatever is queued. The first reason counts.
func (q *Queue[E]) end(why error) {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		return
	}
	q.over, q.closed, q.events = true, true, nil
	if q.err == nil {
		q.err = why
	}
	why = q.err
	if q.last != nil {
		q.last.Stop()
	}
	q.mu.Unlock()
	close(q.ended)
	if q.out.HangUp != nil {
		q.out.HangUp(why)
	}
}

const (
	// sendTimeMax is how long one message may wait for its peer to read it. After that the peer loses its stream: a Send
	// to a peer that does not read waits forever.
	sendTimeMax = 30 * time.Second
	// lastSendTimeMax is how long the last messages of an ended stream may take together. After that the peer does not
	// get them.
	lastSendTimeMax = 5 * time.Second
)

// Patience ends when one message has waited for too long.
type Patience struct {
	end  func()
	once sync.Once // calls end
}

func newPatience(end func()) *Patience { return &Patience{end: end} }

// During runs send, which sends one message, and ends the patience if that takes longer than sendTimeMax.
func (p *Patience) During(send func() error) error {
	timer := time.AfterFunc(sendTimeMax, func() { p.once.Do(p.end) })
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

// SendUntil calls run, which sends on a stream, until run returns, a message waits for too long, or the leadership
// ends. In the last case the last messages get lastSendTimeMax.
func SendUntil(s Serving, op string, run func(*Patience) error) error {
	tooLate, sent := make(chan struct{}), make(chan error, 1)
	slow := newPatience(func() { close(tooLate) })
	s.Beside(func() { sent <- run(slow) })
	var last <-chan time.Time
	for over := s.Over; ; {
		select {
		case err := <-sent:
			return err
		case <-tooLate:
			return tooSlow(op)
		case <-over:
			over, last = nil, time.After(lastSendTimeMax)
		case <-last:
			return s.Ended(op)
		}
	}
}
