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
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// batchesMax bounds the messages that were read and that the loop has not taken yet; beyond it the reader waits.
	batchesMax = 64
)

// link is one stream to a master: a reader and a writer.
type link struct {
	*wire.Link[apiv1.SchedulerCalls, apiv1.SchedulerEvents]
	address string
	heard   chan heard // closed at the end, for the reason why
	why     error
	out     *outbox
	watch   *lookout.Lookout
	writes  *writes // to the framework's store
	running sync.WaitGroup
}

// heard is a message from the master.
type heard struct {
	term   api.Term
	events []protocol.SchedulerEvent
}

// dial opens a stream to the master at known.Own. The context and the timeout apply to the opening only; the stream
// lives until close. known also holds what is known of the other masters, in case this one falls silent.
func dial(opening context.Context, config Config, known lookout.Config, timeout time.Duration) (*link, error) {
	address := known.Own
	life := context.WithoutCancel(opening)
	opening, opened := context.WithTimeoutCause(opening, timeout, api.E("framework.connect", api.Unavailable, address, core.ErrNoAnswer))
	defer opened()
	known.Dial = func(address string) (*grpc.ClientConn, error) { return connect(config.Dialer, address) }
	// One failed attempt to connect is enough to give up on a master that is not there, as it may be away for hours.
	reached, err := config.Dialer(opening, address)
	if err != nil {
		return nil, unreached(opening, err)
	}
	conn, err := connect(wire.Once(func(context.Context, string) (net.Conn, error) { return reached, nil }), address)
	if err != nil {
		_ = reached.Close() // err says more
		return nil, api.E("framework.connect", api.Invalid, address, err)
	}
	stream, err := wire.Open(life, opening, conn, apiv1.NewSchedulerServiceClient(conn).Session)
	if err != nil {
		_ = reached.Close() // err says more
		return nil, wire.Error(err)
	}
	l := &link{
		Link: stream, address: address, heard: make(chan heard, batchesMax), out: newOutbox(), watch: lookout.New(known),
		writes: &writes{store: apiv1.NewStoreServiceClient(conn)},
	}
	l.running.Go(l.read)
	l.running.Go(func() { wire.Write(stream, l.out.await, wire.SchedulerCallBatches) })
	l.running.Go(l.lookOut)
	return l, nil
}

// unreached returns why nobody answers at the address, as far as that can be found out.
func unreached(opening context.Context, err error) error {
	if aborted := context.Cause(opening); aborted != nil {
		return wire.Error(aborted)
	}
	if api.Is(err, api.Removed) {
		return err // the cluster is no more
	}
	return api.E("", api.Unavailable, "", err) // the caller that dials adds the address
}

// connect makes a connection for gRPC without waiting until the master is reached.
func connect(dial wire.Dialer, address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, dial, wire.WithCodec(), grpc.WithInitialWindowSize(wire.StreamWindowBytes), grpc.WithInitialConnWindowSize(wire.ConnWindowBytes))
}

// lookOut ends the session when its master is silent and another one leads.
func (l *link) lookOut() {
	if leader := l.watch.Run(l.Context()); leader != "" {
		l.Leave(wire.NotLeader("framework.session", leader))
	}
}

func (l *link) read() {
	l.why = l.Read(func(message *apiv1.SchedulerEvents) error {
		term, events, err := wire.SchedulerEventsFromProto(message)
		if err != nil {
			return err
		}
		next := heard{term, events}
		l.noticed(next)
		select {
		case l.heard <- next:
		case <-l.Context().Done():
		}
		return nil
	})
	close(l.heard)
}

// noticed tells the lookout that the master is alive, and what the master has said of the other masters.
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

// close ends the stream and waits for reader and writer.
func (l *link) close() {
	l.Close()
	l.writes.end()
	l.running.Wait()
}

// finish sends what is waiting and gives the master a moment to see it.
func (l *link) finish() {
	l.out.close()
	late := time.NewTimer(finishTimeout)
	defer late.Stop()
	for open := true; open; {
		select {
		case _, open = <-l.heard:
		case <-late.C:
			open = false
		}
	}
	l.close()
}

// finishTimeout bounds how long finish waits for the master to see the last calls.
const finishTimeout = 500 * time.Millisecond

// outbox holds the calls that wait for the writer of the stream.
type outbox struct {
	wake chan struct{} // capacity 1: there is something

	mu     sync.Mutex
	calls  []waitingCall
	acks   int         // in the calls
	late   *time.Timer // rings when acknowledgements have waited for long enough; nil: none has been queued yet
	closed bool
}

// waitingCall is a numbered call, or a run of acknowledgements that will be sent as one call.
type waitingCall struct {
	protocol.NumberedCall
	acks []protocol.Acknowledgement
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put queues a call under its number (R3).
func (o *outbox) put(number uint64, call protocol.SchedulerCall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, waitingCall{NumberedCall: protocol.NumberedCall{Number: number, Call: call}})
	o.ring()
}

// ackWait is how long an acknowledgement waits for others, and for a call, to be sent with them. Nobody waits for it: it
// lets the agent forget a status. Each message costs three processes more than what is in it.
const ackWait = 5 * time.Millisecond

// acknowledge queues an acknowledgement. Acknowledgements that follow one another are sent as one call, with the number
// of the last one.
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
	switch o.acks++; {
	case o.acks > 1 || len(o.calls) > 1: // it is to ring already
	case o.late == nil:
		o.late = time.AfterFunc(ackWait, o.ring)
	default:
		o.late.Reset(ackWait)
	}
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

// waiting returns how many calls the master has not taken yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls) + o.acks
}

// await waits until something is queued, and returns all of it. more is false when no further calls can follow.
func (o *outbox) await(ctx context.Context) (calls []protocol.NumberedCall, more bool) {
	select {
	case <-ctx.Done():
		return nil, false
	case <-o.wake:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	calls = make([]protocol.NumberedCall, len(o.calls))
	for i, call := range o.calls {
		calls[i] = call.NumberedCall
		if call.Call == nil {
			calls[i].Call = protocol.Acknowledge{Items: call.acks}
		}
	}
	o.calls, o.acks = nil, 0
	return calls, !o.closed
}

// acksPerCallMax keeps a call far below the size of a message.
const acksPerCallMax = 1000
