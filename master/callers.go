package master

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// readsMax bounds the operators' reads that are queued. When it is full, further reads wait.
const readsMax = 256

// callers is the way into a leader's loop for everybody who calls, and back with what came of it. It knows nothing of the
// loop, and ends when the leadership stops serving.
type callers struct {
	leading *leadership
	lead    *raftlog.Leadership
	inbox   *intake.Lanes[arrival]
	reads   chan func(*core.Core, time.Time)
	serving service
	stores  *storeNews
	ids     atomic.Uint64 // counts connections and requests
}

func newCallers(leading *leadership, lead *raftlog.Leadership) *callers {
	serving, end := context.WithCancel(context.Background())
	return &callers{
		leading: leading, lead: lead, serving: service{serving, end},
		inbox:  intake.NewLanes[arrival](),
		reads:  make(chan func(*core.Core, time.Time), readsMax),
		stores: &storeNews{writes: intake.NewBudget(storeWriteBytesMax), watched: make(map[api.FrameworkID]*watched)},
	}
}

// service is a context that ends when a leadership stops serving.
type service struct {
	context.Context
	end func()
}

// over returns a channel that is closed when this leadership stops serving.
func (l *callers) over() <-chan struct{} { return l.serving.Done() }

// send puts an arrival into the loop through an inlet. It returns false when the leadership or ctx has ended.
func (l *callers) send(ctx context.Context, by *intake.Inlet[arrival], arrived arrival) bool {
	arrived.at = time.Now()
	return by.Put(ctx, l.over(), arrived, arrived.bytes)
}

// read runs a function in the loop, between two batches.
func (l *callers) read(ctx context.Context, op string, read func(view.Cluster, time.Time)) error {
	done := make(chan struct{})
	select {
	case l.reads <- func(c *core.Core, now time.Time) { defer close(done); read(c.View(), now) }:
	case <-l.over():
		return l.leading.notLeader(op)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-l.over():
		return l.leading.notLeader(op)
	}
}

// request puts an operator's action into the loop and waits for the reply.
func (l *callers) request(ctx context.Context, op string, action core.Action) (any, error) {
	reply := make(chan core.Reply, 1)
	arrived, _ := l.requested(ctx, action, reply)
	if !l.send(ctx, l.inbox.Operators, arrived) {
		return nil, l.notSent(ctx, op)
	}
	if r, came := l.replied(ctx, reply); came {
		return r.Answer, asError(r.Err)
	}
	return nil, l.noReply(ctx, op)
}

// requested returns a request with as many IDs as replies has room for, and the first of them.
func (l *callers) requested(ctx context.Context, action core.Action, replies chan<- core.Reply) (arrival, core.RequestID) {
	n := uint64(cap(replies))
	first := core.RequestID(l.ids.Add(n) - n + 1)
	return arrival{what: core.Requested{ID: first, Action: action, By: guard.ScopeOf(ctx), Who: guard.CallerOf(ctx).String()}, replies: replies}, first
}

// notSent returns the reason why a request did not get into the loop.
func (l *callers) notSent(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return wire.Error(ctx.Err())
	}
	return l.leading.notLeader(op)
}

// replied waits for the reply to a request; false when ctx or the leadership ends first.
func (l *callers) replied(ctx context.Context, reply <-chan core.Reply) (core.Reply, bool) {
	select {
	case r := <-reply:
		return r, true
	case <-ctx.Done():
		return core.Reply{}, false
	case <-l.over():
		select { // the reply may have come at the same moment
		case r := <-reply:
			return r, true
		default:
			return core.Reply{}, false
		}
	}
}

// noReply returns the error of a request that was sent and not answered: its outcome is unknown.
func (l *callers) noReply(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return api.E(op, api.Unknown, "", errors.New("given up before the outcome was known"))
	}
	return api.E(op, api.Unknown, "", errors.New("the leadership ended before the outcome was known"))
}

// asError converts the error to the interface type, so that a nil pointer becomes a nil error.
func asError(err *api.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// commit proposes a change that does no harm when it is applied twice, and waits for the outcome.
func (l *callers) commit(ctx context.Context, op string, change registry.Change) error {
	done := make(chan error, 1)
	taken := l.lead.Propose(raftlog.Proposal{
		Command: registry.Command{At: time.Now(), Change: change},
		Done: func(result registry.Result, err error) {
			if err == nil && result.Err != nil {
				err = result.Err
			}
			done <- err
		},
	})
	if taken == 0 {
		return api.E(op, api.Unavailable, "", errors.New("too much is on its way to the quorum"))
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return l.noReply(ctx, op)
	}
}

// streams describes this leadership to functions that send on streams until it is over.
func (l *callers) streams() outbox.Serving {
	return outbox.Serving{Beside: l.leading.beside.Go, Over: l.over(), Ended: l.leading.notLeader}
}
