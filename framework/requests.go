package framework

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

// requestsMax bounds the requests of Client's callers that the loop has not handled yet; beyond it callers wait.
const requestsMax = 1024

// request is what a caller of the Client, or the goroutine of the callbacks, has the loop do in its own goroutine.
type request func(l *loop)

// reply is what a caller of the Client waits for.
type reply struct {
	err    error
	shapes []api.Shape
	stated bool
}

// answerCaller answers the question with this number, if its caller still waits.
func (l *loop) answerCaller(number uint64, what reply) {
	if waiting, waits := l.replies[number]; waits {
		delete(l.replies, number)
		waiting <- what
	}
}

// endReplies tells all callers that still wait that Run has ended. Only updates wait for long.
func (l *loop) endReplies() {
	for number := range l.replies {
		l.answerCaller(number, reply{err: api.E("framework.update", api.Unavailable, l.client.FrameworkID(), errEnded)})
	}
}

// askLoop passes a request to the loop. Callbacks may use it, because the loop never waits for callbacks.
func (c *Client) askLoop(op string, request request) error {
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

// tellCore passes to the core what the caller asks for. Nobody waits for a reply.
func (c *Client) tellCore(op string, what core.Happening) error {
	return c.askLoop(op, func(l *loop) { l.stepCore(what) })
}

// askCore passes a question to the core, which is told the question's number and answers under it.
func (c *Client) askCore(op string, ask func(number uint64) core.Happening) (number uint64, answer <-chan reply, err error) {
	waiting := make(chan reply, 1)
	number = c.asked.Add(1)
	err = c.askLoop(op, func(l *loop) {
		l.replies[number] = waiting
		l.stepCore(ask(number))
	})
	return number, waiting, err
}
