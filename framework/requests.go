package framework

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

// requestsMax bounds the requests of Client's callers that the loop has not taken yet; beyond it callers wait.
const requestsMax = 1024

// request is what a caller of the Client asks of the loop. The loop takes it in its own goroutine.
type request interface{ take(l *loop) }

// told is a request that is passed to the core; nobody waits for a reply.
type told struct{ what core.Happening }

func (t told) take(l *loop) { l.step(t.what) }

// question is a request whose caller waits for the reply with its number.
type question struct {
	what   core.Happening
	number uint64
	reply  chan<- reply // capacity 1
}

func (q question) take(l *loop) {
	l.replies[q.number] = q.reply
	l.step(q.what)
}

// withdrawal says that a caller no longer waits for its reply.
type withdrawal struct {
	what   core.Happening
	number uint64
}

func (w withdrawal) take(l *loop) {
	delete(l.replies, w.number)
	l.step(w.what)
}

// reply is what a caller of the Client waits for.
type reply struct {
	err    error
	shapes []api.Shape
	stated bool
}

// reply answers the question with this number, if its caller still waits.
func (l *loop) reply(number uint64, what reply) {
	if waiting, waits := l.replies[number]; waits {
		delete(l.replies, number)
		waiting <- what
	}
}

// endReplies tells all callers that still wait that Run has ended. Only updates wait for long.
func (l *loop) endReplies() {
	for number := range l.replies {
		l.reply(number, reply{err: api.E("framework.update", api.Unavailable, l.client.FrameworkID(), errEnded)})
	}
}

// ask passes a request to the loop. Callbacks may use it, because the loop never waits for callbacks.
func (c *Client) ask(op string, request request) error {
	select {
	case <-c.ended:
		return api.E(op, api.Unavailable, c.FrameworkID(), errEnded)
	default:
	}
	select {
	case c.loop.requests <- request:
		return nil
	case <-c.ended:
		return api.E(op, api.Unavailable, c.FrameworkID(), errEnded)
	}
}

// tell passes to the core what the caller asks for.
func (c *Client) tell(op string, what core.Happening) error { return c.ask(op, told{what}) }
