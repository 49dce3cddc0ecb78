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

// turn is a function of the user that is to run between callbacks, on their goroutine, once
// at most: it is taken when it begins or when it is called off, whichever is first.
type turn struct {
	do    func()
	taken atomic.Bool
	ended chan struct{} // closed when do has ended
	err   error         // read after ended

	// Of After:
	at    time.Time            // when it is due
	alarm *alarms.Alarm[*turn] // loop's only; nil: it was never planned
}

// take reports whether the caller is first: it runs the function, or nobody does.
func (t *turn) take() bool { return t.taken.CompareAndSwap(false, true) }

// run runs the function, unless it was called off.
func (t *turn) run() error {
	if !t.take() {
		return errSkipped
	}
	t.err = errTurnBroke
	defer close(t.ended)
	t.do()
	t.err = nil
	return nil
}

// Do runs the function on the goroutine that calls the scheduler's methods, between two of
// them, and returns when it has run. So signals, HTTP handlers and goroutines of one's own
// read and change what the scheduler's methods do, without a lock:
//
//	err := client.Do(request.Context(), func() { running = len(scheduler.running) })
//
// It waits for the callbacks that came before, and needs no session: it serves also between
// two of them and while this instance stands by. nil means that the function has run. When
// ctx or Run ends before it has begun, it never runs, and the error is of kind
// [api.Unavailable]. From a callback Do is refused (kind [api.Invalid]), as it would wait for
// itself. A panic in the function is one of a callback: it ends Run (kind [api.Internal]).
func (c *Client) Do(ctx context.Context, do func()) error {
	const op = "framework.do"
	if c.loop.callbacks.isMe() {
		return api.E(op, api.Invalid, c.FrameworkID(), errOwnTurn)
	}
	t := &turn{do: do, ended: make(chan struct{})}
	if err := c.ask(op, turnCalled{"Do", t}); err != nil {
		return err
	}
	var err error
	select {
	case <-t.ended:
	case <-ctx.Done():
		err = api.E(op, api.Unavailable, c.FrameworkID(), context.Cause(ctx))
	case <-c.ended:
		err = api.E(op, api.Unavailable, c.FrameworkID(), errEnded)
	}
	if err != nil && t.take() {
		return err
	}
	<-t.ended
	if t.err != nil {
		return api.E(op, api.Internal, c.FrameworkID(), t.err)
	}
	return nil
}

// After runs the function on the goroutine that calls the scheduler's methods, between two
// of them, once d has passed. It may be called from callbacks, and the function may call it
// again. stop calls it off; on that same goroutine it is certain that the function does not
// run after stop, elsewhere it may have begun. The end of Run calls off what has not begun.
// The ends of sessions change nothing: between them the function runs as well.
func (c *Client) After(d time.Duration, do func()) (stop func()) {
	const op = "framework.after"
	t := &turn{do: do, ended: make(chan struct{}), at: time.Now().Add(d)}
	if c.ask(op, turnPlanned{t}) != nil {
		return func() {} // Run has ended
	}
	return func() {
		if t.take() {
			_ = c.ask(op, turnDropped{t}) // fails only when Run has ended
		}
	}
}

// turns are the functions that wait: for their time, or for the core to give them their turn.
type turns struct {
	planned alarms.Alarms[*turn] // by After
	called  map[uint64]*turn     // by the number that the core knows them by
	calls   uint64               // so far
}

func newTurns() turns { return turns{called: make(map[uint64]*turn)} }

// take takes out the function of a callback; nil: it is none of a function.
func (t *turns) take(callback core.Callback) *turn {
	call, is := callback.(core.CallTurn)
	if !is {
		return nil
	}
	one := t.called[call.Turn]
	delete(t.called, call.Turn)
	return one
}

// turnCalled asks for a turn behind the callbacks that wait.
type turnCalled struct {
	name string
	turn *turn
}

func (t turnCalled) take(l *loop) {
	l.turns.calls++
	l.turns.called[l.turns.calls] = t.turn
	l.step(core.TurnAsked{Name: t.name, Turn: l.turns.calls})
}

// turnPlanned asks for a turn at its time.
type turnPlanned struct{ turn *turn }

func (t turnPlanned) take(l *loop) {
	if !t.turn.taken.Load() {
		t.turn.alarm = l.turns.planned.Add(t.turn.at, t.turn)
	}
}

// turnDropped takes back a turn that was planned.
type turnDropped struct{ turn *turn }

func (t turnDropped) take(l *loop) { l.turns.planned.Clear(t.turn.alarm) }

// callTurnsDue asks for the turns that After has planned for now.
func (l *loop) callTurnsDue() {
	if l.turns.planned.Len() == 0 {
		return
	}
	now := time.Now()
	for one, is := l.turns.planned.Due(now); is; one, is = l.turns.planned.Due(now) {
		turnCalled{"After", one}.take(l)
	}
}

// isMe reports whether the goroutine that asks is the one of the callbacks. Go has no better
// name of a goroutine than the first line of its stack; it is asked where people wait.
func (c *callbacks) isMe() bool {
	mine := c.goroutine.Load()
	return mine != nil && *mine == goroutine()
}

// goroutine is the name of the goroutine that asks, such as "goroutine 18".
func goroutine() string {
	var line [64]byte
	name, _, _ := bytes.Cut(line[:runtime.Stack(line[:], false)], []byte(" ["))
	return string(name)
}
