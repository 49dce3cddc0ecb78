package framework

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
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
	at     time.Time // when it is due
	number uint64    // loop's only: those that are due at once run in this order
	place  int       // loop's only: among those that wait, or -1
}

// take reports whether the caller is first: it runs the function, or nobody does.
func (t *turn) take() bool { return t.taken.CompareAndSwap(false, true) }

func (t *turn) run() {
	if !t.take() {
		return
	}
	t.err = errTurnBroke
	defer close(t.ended)
	t.do()
	t.err = nil
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
	if err := c.ask(op, func() { c.loop.callTurn("Do", t) }); err != nil {
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
	t := &turn{do: do, ended: make(chan struct{}), at: time.Now().Add(d), place: -1}
	if c.ask(op, func() { c.loop.planTurn(t) }) != nil {
		return func() {} // Run has ended
	}
	return func() {
		if t.take() {
			_ = c.ask(op, func() { c.loop.dropTurn(t) }) // fails only when Run has ended
		}
	}
}

// callTurn queues the function behind the callbacks that wait.
func (l *loop) callTurn(name string, t *turn) {
	l.callbacks.push(job{
		name:    name,
		always:  true,
		prepare: func() bool { return !l.leaving && !t.taken.Load() },
		call:    func(context.Context) error { t.run(); return nil },
		done:    func(error) {},
	})
}

func (l *loop) planTurn(t *turn) {
	if !t.taken.Load() {
		l.planned++
		t.number = l.planned
		heap.Push(&l.turns, t)
	}
}

func (l *loop) dropTurn(t *turn) {
	if t.place >= 0 {
		heap.Remove(&l.turns, t.place)
	}
}

// callTurnsDue queues what After has planned for now.
func (l *loop) callTurnsDue(now time.Time) {
	for len(l.turns) > 0 && !l.turns[0].at.After(now) {
		l.callTurn("After", heap.Pop(&l.turns).(*turn))
	}
}

// turns are those that After has planned, the soonest first.
type turns []*turn

func (t turns) Len() int { return len(t) }
func (t turns) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].number < t[j].number
	}
	return t[i].at.Before(t[j].at)
}
func (t turns) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}
func (t *turns) Push(x any) {
	one := x.(*turn)
	one.place = len(*t)
	*t = append(*t, one)
}
func (t *turns) Pop() any {
	old := *t
	last := old[len(old)-1]
	last.place = -1
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return last
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
