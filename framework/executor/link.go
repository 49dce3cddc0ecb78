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
	// dialTimeout bounds how long it may take to open a stream to the agent, which is a process on the same machine.
	dialTimeout = 5 * time.Second
	// answerTimeout is how long the agent may take to answer a subscription.
	answerTimeout = 30 * time.Second
	// heartbeatInterval is long because nobody judges an executor by its heartbeats: if a process on the same machine
	// ends, the kernel says so at once. They only keep the stream from looking unused to whatever may stand between.
	heartbeatInterval = 10 * time.Minute
)

var errNoAnswer = errors.New("no answer in time; does the agent run?")

// link is one stream to the agent.
type link = wire.Link[apiv1.ExecutorCalls, apiv1.ExecutorEvents]

func dial(ctx context.Context, config Config) (*link, error) {
	conn, err := grpc.NewClient("passthrough:///agent",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(wire.Once(func(ctx context.Context, _ string) (net.Conn, error) { return config.Dialer(ctx) })),
		grpc.WithInitialWindowSize(wire.StreamWindowBytes),
		grpc.WithInitialConnWindowSize(wire.ConnWindowBytes),
		grpc.WithDisableServiceConfig(),
		wire.WithCodec(),
	)
	if err != nil {
		return nil, api.E("executor.connect", api.Invalid, config.Socket, err)
	}
	opening, opened := context.WithTimeoutCause(ctx, dialTimeout, errNoAnswer)
	defer opened()
	l, err := wire.Open(ctx, opening, conn, apiv1.NewExecutorServiceClient(conn).Session)
	if err != nil {
		return nil, api.E("executor.connect", api.Unavailable, config.Socket, err)
	}
	return l, nil
}

// read passes every event to hear until the stream ends, because the agent ends it or because this side closes it.
func read(l *link, hear func(protocol.ExecutorEvent)) error {
	return l.Read(func(message *apiv1.ExecutorEvents) error {
		events, err := wire.ExecutorEventsFromProto(message)
		if err != nil {
			return err
		}
		for _, event := range events {
			hear(event)
		}
		return nil
	})
}

// write sends what the ledger queues, until the stream ends. The error of the stream is the reader's to return.
func write(l *link, ledger *ledger) {
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	wire.Write(l, func(ctx context.Context) ([]protocol.ExecutorCall, bool) {
		select {
		case <-ctx.Done():
			return nil, false
		case <-ledger.wake:
		case <-beat.C:
			ledger.sendCall(protocol.ExecutorHeartbeat{})
		}
		return ledger.takeCalls(), true
	}, wire.ExecutorCallBatches)
}
