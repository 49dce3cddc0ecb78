package executor

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// dialTimeout bounds the opening of a stream to a process on the same machine.
	dialTimeout = 5 * time.Second
	// answerTimeout is how long the agent may take to answer a subscription.
	answerTimeout = 30 * time.Second
	// heartbeatInterval: nobody judges an executor by its heartbeats, as the kernel says at once when a
	// process on the same machine is gone. They keep the stream from looking forgotten to whatever may
	// stand between.
	heartbeatInterval = 10 * time.Minute
)

var errNoAnswer = errors.New("no answer in time; does the agent run?")

// link is one stream to the agent.
type link struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[apiv1.ExecutorCalls, apiv1.ExecutorEvents]
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func dial(ctx context.Context, config Config) (*link, error) {
	conn, err := grpc.NewClient("passthrough:///agent",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(wire.Once(func(ctx context.Context, _ string) (net.Conn, error) { return config.Dialer(ctx) })),
		grpc.WithInitialWindowSize(wire.StreamWindowBytes),
		grpc.WithInitialConnWindowSize(wire.ConnWindowBytes),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, api.E("executor.connect", api.Invalid, config.Socket, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(dialTimeout, func() { cancel(errNoAnswer) })
	stream, err := apiv1.NewExecutorServiceClient(conn).Session(ctx)
	if !late.Stop() && err == nil {
		err = errNoAnswer
	}
	if err != nil {
		cancel(nil)
		_ = conn.Close() // err says more
		return nil, api.E("executor.connect", api.Unavailable, config.Socket, err)
	}
	return &link{conn: conn, stream: stream, ctx: ctx, cancel: cancel}, nil
}

// read gives every event to hear until the stream ends, by the agent's word or by leave.
func (l *link) read(hear func(protocol.ExecutorEvent)) error {
	for {
		message, err := l.stream.Recv()
		if left := context.Cause(l.ctx); err != nil && left != nil {
			return left
		}
		if err != nil {
			return wire.Error(err)
		}
		events, err := wire.ExecutorEventsFromProto(message)
		if err != nil {
			return err
		}
		for _, event := range events {
			hear(event)
		}
	}
}

// leave ends the stream for a reason of this side, which the reader returns.
func (l *link) leave(why error) { l.cancel(why) }

// write sends what the ledger has until the stream ends; the reader sees why.
func (l *link) write(ledger *ledger) {
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ledger.wake:
		case <-beat.C:
			ledger.send(protocol.ExecutorHeartbeat{})
		}
		if !l.send(ledger.take()) {
			return
		}
	}
}

// send reports false when the stream has ended. What can't be sent ends it: an agent that
// waits for it would wait for ever.
func (l *link) send(calls []protocol.ExecutorCall) bool {
	batches, err := wire.ExecutorCallBatches(calls)
	if err != nil {
		l.leave(err)
		return false
	}
	for _, batch := range batches {
		if l.stream.Send(batch) != nil {
			return false
		}
	}
	return true
}

func (l *link) close() {
	l.cancel(nil)
	_ = l.conn.Close() // fails only when it is closed already
}
