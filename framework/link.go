package framework

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/transport"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// batchesMax bounds what was read and not yet taken by the loop; the reader waits.
	batchesMax = 64
)

// link is one stream to a master: a reader and a writer.
type link struct {
	address string
	conn    *grpc.ClientConn
	stream  grpc.BidiStreamingClient[apiv1.SchedulerCalls, apiv1.SchedulerEvents]
	cancel  context.CancelCauseFunc
	heard   chan heard // ends with an error
	out     *outbox
	watch   *lookout.Lookout
	running sync.WaitGroup
}

// heard is a message from the master, or why there will be no more.
type heard struct {
	term   api.Term
	events []protocol.SchedulerEvent
	err    error
}

// dial opens a stream. Context and timeout are for opening it; its life ends with close.
// known is what is known of other masters, should this one fall silent.
func dial(opening context.Context, config Config, known lookout.Config, timeout time.Duration) (*link, error) {
	address := known.Own
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(opening))
	opening, opened := context.WithTimeoutCause(opening, timeout, api.E("framework.connect", api.Unavailable, address, core.ErrNoAnswer))
	defer opened()
	abort := context.AfterFunc(opening, func() { cancel(context.Cause(opening)) })
	known.Dial = func(address string) (*grpc.ClientConn, error) { return connect(config.Dialer, address) }
	// A master that is not there costs one try to connect and nothing else, as it may be away for hours.
	reached, err := config.Dialer(opening, address)
	if err != nil {
		cancel(nil)
		return nil, unreached(opening, err)
	}
	conn, err := connect(wire.Once(func(context.Context, string) (net.Conn, error) { return reached, nil }), address)
	if err != nil {
		cancel(nil)
		_ = reached.Close() // err says more
		return nil, api.E("framework.connect", api.Invalid, address, err)
	}
	stream, err := apiv1.NewSchedulerServiceClient(conn).Session(ctx)
	if !abort() || err != nil {
		if aborted := context.Cause(opening); aborted != nil {
			err = aborted
		}
		cancel(nil)
		_ = conn.Close() // err says more
		_ = reached.Close()
		return nil, wire.Error(err)
	}
	l := &link{address: address, conn: conn, stream: stream, cancel: cancel, heard: make(chan heard, batchesMax), out: newOutbox()}
	l.watch = lookout.New(known)
	l.running.Go(func() { l.read(ctx) })
	l.running.Go(func() { l.write(ctx) })
	l.running.Go(func() { l.lookOut(ctx) })
	return l, nil
}

// unreached is why nothing listens at the address, as far as can be told.
func unreached(opening context.Context, err error) error {
	if aborted := context.Cause(opening); aborted != nil {
		return wire.Error(aborted)
	}
	return api.E("", api.Unavailable, "", err) // who dials says where
}

// connect waits for nothing.
func connect(dial wire.Dialer, address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, dial, grpc.WithInitialWindowSize(wire.StreamWindowBytes), grpc.WithInitialConnWindowSize(wire.ConnWindowBytes))
}

// lookOut ends the session when its master is silent and another one leads.
func (l *link) lookOut(ctx context.Context) {
	leader := l.watch.Run(ctx)
	if leader == "" {
		return
	}
	select {
	case l.heard <- heard{err: wire.NotLeader("framework.session", leader)}:
	case <-ctx.Done():
	}
}

func (l *link) read(ctx context.Context) {
	for {
		message, err := l.stream.Recv()
		var next heard
		if err == nil {
			next.term, next.events, err = wire.SchedulerEventsFromProto(message)
		}
		if err != nil {
			next.err = wire.Error(err)
		} else {
			l.noticed(next)
		}
		select {
		case l.heard <- next:
		case <-ctx.Done():
			return
		}
		if next.err != nil {
			return
		}
	}
}

// noticed: the master is there.
func (l *link) noticed(next heard) {
	l.watch.Heard(next.term)
	for _, event := range next.events {
		switch event := event.(type) {
		case protocol.Subscribed:
			l.watch.Learn(event.HeartbeatInterval, event.Masters)
		case protocol.MasterHeartbeat:
			l.watch.Learn(0, event.Masters)
		default: // the others mean nothing here
		}
	}
}

// write sends what the outbox holds, as few messages as fit. The reader sees why a
// stream has broken, so errors end here.
func (l *link) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.out.wake:
		}
		calls, last := l.out.take()
		if l.send(calls) != nil {
			return
		}
		if last {
			_ = l.stream.CloseSend()
			return
		}
	}
}

func (l *link) send(calls []protocol.NumberedCall) error {
	batches, err := wire.SchedulerCallBatches(calls)
	if err != nil {
		return err
	}
	for _, batch := range batches {
		if err := l.stream.Send(batch); err != nil {
			return err
		}
	}
	return nil
}

// close ends the stream and waits for reader and writer.
func (l *link) close() {
	l.cancel(nil)
	_ = l.conn.Close() // fails only when it is closed already
	l.running.Wait()
}

// finish sends what is waiting and gives the master a moment to see it.
func (l *link) finish() {
	l.out.close()
	late := time.NewTimer(finishTimeout)
	defer late.Stop()
	for open := true; open; {
		select {
		case next := <-l.heard:
			open = next.err == nil
		case <-late.C:
			open = false
		}
	}
	l.close()
}

// finishTimeout bounds the goodbye.
const finishTimeout = 500 * time.Millisecond

// outbox holds the calls that wait for the writer.
type outbox struct {
	wake chan struct{} // capacity 1: there is something

	mu     sync.Mutex
	calls  []waitingCall
	acks   int // in the calls
	closed bool
}

// waitingCall is a numbered call, or acknowledgements that will be one.
type waitingCall struct {
	protocol.NumberedCall
	acks []protocol.Acknowledgement
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put queues a call by its number (R3).
func (o *outbox) put(number uint64, call protocol.SchedulerCall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, waitingCall{NumberedCall: protocol.NumberedCall{Number: number, Call: call}})
	o.ring()
}

// acknowledge queues an acknowledgement. Those that follow one another are one call, with the number of the last.
func (o *outbox) acknowledge(number uint64, ack protocol.Acknowledgement) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := len(o.calls) - 1
	if last < 0 || o.calls[last].Call != nil || len(o.calls[last].acks) == acksPerCallMax {
		o.calls = append(o.calls, waitingCall{})
		last++
	}
	o.calls[last].Number = number
	o.calls[last].acks = append(o.calls[last].acks, ack)
	o.acks++
	o.ring()
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.ring()
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// waiting is how much the master has not taken yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls) + o.acks
}

// take hands the writer everything; last says that nothing follows.
func (o *outbox) take() (calls []protocol.NumberedCall, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls = make([]protocol.NumberedCall, len(o.calls))
	for i, one := range o.calls {
		calls[i] = one.NumberedCall
		if one.Call == nil {
			calls[i].Call = protocol.Acknowledge{Items: one.acks}
		}
	}
	o.calls, o.acks = nil, 0
	return calls, o.closed
}

// acksPerCallMax keeps a call far below the size of a message.
const acksPerCallMax = 1000
