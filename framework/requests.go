package framework

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

// requestsMax bounds what callers of the Client have asked and the loop has not
// taken; callers wait.
const requestsMax = 1024

// request is what a caller of the Client asks of the loop, which takes it in its goroutine.
type request interface{ take(l *loop) }

// told is a request that the core is told of and that nobody waits for.
type told struct{ what core.Happening }

func (t told) take(l *loop) { l.step(t.what) }

// question is a request whose caller waits for a reply of that number.
type question struct {
	what   core.Happening
	number uint64
	reply  chan<- reply // capacity 1
}

func (q question) take(l *loop) {
	l.replies[q.number] = q.reply
	l.step(q.what)
}

// withdrawal is a request of a caller that does not wait for the reply any more.
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

// reply answers a question, if somebody waits.
func (l *loop) reply(number uint64, what reply) {
	if waiting, waits := l.replies[number]; waits {
		delete(l.replies, number)
		waiting <- what
	}
}

// endReplies tells who still waits that Run has ended: an update is the only question that can take long.
func (l *loop) endReplies() {
	for number := range l.replies {
		l.reply(number, reply{err: api.E("framework.update", api.Unavailable, l.client.FrameworkID(), errEnded)})
	}
}

// ask has the loop do something. Callbacks may use it: the loop never waits for them.
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

// tell has the core told what the caller asks for.
func (c *Client) tell(op string, what core.Happening) error { return c.ask(op, told{what}) }
