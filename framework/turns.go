package framework

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/alarms"
)

var (
	errOwnTurn   = errors.New("Do was called from a callback and would wait for itself; call the function there, or give it to After")
	errTurnBroke = errors.New("the function panicked or ended its goroutine; Run ends for that")
)

// turn is a function of the user that runs between callbacks, on their goroutine, at most once. settled is set when the
// function begins or when it is called off, whichever is first.
type turn struct {
	do      func()
	settled atomic.Bool
	ended   chan struct{} // closed when do has ended
	err     error         // read after ended

	// For After only:
	at    time.Time            // when the function is due
	alarm *alarms.Alarm[*turn] // only the loop uses it; nil: it was never planned
}

// claim reports whether the caller is the first to claim the turn: then it alone may run the function, or call it off.
func (t *turn) claim() bool { return t.settled.CompareAndSwap(false, true) }

// run runs the function, unless it was called off.
func (t *turn) run() error {
	if !t.claim() {
		return errSkipped
	}
	t.err = errTurnBroke
	defer close(t.ended)
	t.do()
	t.err = nil
	return nil
}

// Do runs the function on the goroutine that calls the scheduler's methods, between two of these calls, and returns
// when it has run. So signal handlers, HTTP handlers and your own goroutines can read and change the scheduler's state
// without a lock:
//
//	err := client.Do(request.Context(), func() { running = len(scheduler.running) })
//
// Do waits for the callbacks that were due before it. It needs no session: it also works between two sessions, and
// while this instance stands by. nil means that the function has run. If ctx or Run ends before the function has begun,
// it never runs, and the error's kind is [api.Unavailable]. From a callback Do is refused (kind [api.Invalid]), because
// it would wait for itself. A panic in the function counts as one in a callback: it ends Run (kind [api.Internal]).
func (c *Client) Do(ctx context.Context, do func()) error {
	const op = "framework.do"
	if c.loop.callbacks.isMe() {
		return api.E(op, api.Invalid, c.FrameworkID(), errOwnTurn)
	}
	t := &turn{do: do, ended: make(chan struct{})}
	err := c.askLoop(op, func(l *loop) { l.callTurn("Do", t) })
	if err != nil {
		return err
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
		err = api.E(op, api.Unavailable, c.FrameworkID(), context.Cause(ctx))
	case <-c.ended:
		err = api.E(op, api.Unavailable, c.FrameworkID(), errEnded)
	}
	if err != nil && t.claim() {
		return err
	}
	<-t.ended
	if t.err != nil {
		return api.E(op, api.Internal, c.FrameworkID(), t.err)
	}
	return nil
}

// After runs the function on the goroutine that calls the scheduler's methods, between two of these calls, once d has
// passed. It may be called from callbacks, and by the function itself. stop calls the function off: if stop is called
// on that same goroutine, the function is certain not to run afterwards; elsewhere it may have begun already. When Run
// ends, functions that have not begun never run. Sessions make no difference: the function also runs between them.
func (c *Client) After(d time.Duration, do func()) (stop func()) {
	const op = "framework.after"
	t := &turn{do: do, ended: make(chan struct{}), at: time.Now().Add(d)}
	if c.askLoop(op, func(l *loop) { l.planTurn(t) }) != nil {
		return func() {} // Run has ended
	}
	return func() {
		if t.claim() {
			_ = c.askLoop(op, func(l *loop) { l.turns.planned.Clear(t.alarm) }) // fails only when Run has ended
		}
	}
}

// turns holds the functions that wait until they are due, or until the core lets them run.
type turns struct {
	planned alarms.Alarms[*turn] // by After
	called  map[uint64]*turn     // by the number under which the core knows them
	calls   uint64               // so far
}

func newTurns() turns { return turns{called: make(map[uint64]*turn)} }

// remove removes and returns the function that the callback is to run; nil: the callback runs none.
func (t *turns) remove(callback core.Callback) *turn {
	call, is := callback.(core.CallTurn)
	if !is {
		return nil
	}
	called := t.called[call.Turn]
	delete(t.called, call.Turn)
	return called
}

// callTurn asks the core for a turn behind the callbacks that wait.
func (l *loop) callTurn(name string, t *turn) {
	l.turns.calls++
	l.turns.called[l.turns.calls] = t
	l.stepCore(core.TurnAsked{Name: name, Turn: l.turns.calls})
}

// planTurn sets the alarm of a turn, unless it was called off.
func (l *loop) planTurn(t *turn) {
	if !t.settled.Load() {
		t.alarm = l.turns.planned.Add(t.at, t)
	}
}

// callTurnsDue asks the core to let the functions run that are due now.
func (l *loop) callTurnsDue() {
	if l.turns.planned.Len() == 0 {
		return
	}
	now := time.Now()
	for due, is := l.turns.planned.Due(now); is; due, is = l.turns.planned.Due(now) {
		l.callTurn("After", due)
	}
}

// isMe reports whether the calling goroutine is the one of the callbacks. Go gives no better name of a goroutine than
// the first line of its stack. That is slow, but it is asked only where the caller waits anyway.
func (c *callbacks) isMe() bool {
	mine := c.goroutine.Load()
	return mine != nil && *mine == goroutine()
}

// goroutine returns the name of the calling goroutine, such as "goroutine 18".
func goroutine() string {
	var line [64]byte
	name, _, _ := bytes.Cut(line[:runtime.Stack(line[:], false)], []byte(" ["))
	return string(name)
}
