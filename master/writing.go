package master

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

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
