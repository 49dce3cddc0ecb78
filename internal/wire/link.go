package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Link is the client's end of a stream that has a connection of its own. One goroutine reads and one writes. Both end
// with the stream, and the reader returns why it has ended.
type Link[Up, Down any] struct {
	conn   *grpc.ClientConn // nil: the stream has a connection that ends with it
	stream grpc.BidiStreamingClient[Up, Down]
	ctx    context.Context
	end    context.CancelCauseFunc
}

// Open opens a stream. It gives up when opening ends, with that context's cause as the error. The stream lives until
// life ends. The link owns the connection, also if the stream can't be opened; it is nil for a stream that has one of its
// own, which ends with the stream's context.
func Open[Up, Down any](
	life, opening context.Context, conn *grpc.ClientConn,
	session func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Up, Down], error),
) (*Link[Up, Down], error) {
	l := &Link[Up, Down]{conn: conn}
	l.ctx, l.end = context.WithCancelCause(life)
	inTime := context.AfterFunc(opening, func() { l.end(context.Cause(opening)) })
	stream, err := session(l.ctx)
	if !inTime() {
		err = context.Cause(opening)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.stream = stream
	return l, nil
}

// Context returns a context that ends when this side ends the stream.
func (l *Link[Up, Down]) Context() context.Context { return l.ctx }

// Conn returns the connection, for other calls to the same server.
func (l *Link[Up, Down]) Conn() *grpc.ClientConn { return l.conn }

// Leave ends the stream with an error of this side, which Read returns.
func (l *Link[Up, Down]) Leave(why error) { l.end(why) }

// Close ends the stream and its connection.
func (l *Link[Up, Down]) Close() {
	l.end(nil)
	if l.conn != nil {
		_ = l.conn.Close() // it fails only if it is closed already
	}
}

// Read passes each message to hear until the stream ends or hear fails, and returns why. If this side has left, that is
// the error of Leave.
func (l *Link[Up, Down]) Read(hear func(*Down) error) error {
	for {
		message, err := l.stream.Recv()
		if err == nil {
			err = hear(message)
		}
		if left := context.Cause(l.ctx); err != nil && left != nil {
			return left
		}
		if err != nil {
			return Error(err)
		}
	}
}

// Write sends what take returns, in order, in as few messages as pack makes of it, until there is no more or the stream
// has ended. If something can't be packed, the stream is ended, because its receiver would wait for it for ever.
func Write[Call, Up, Down any](
	l *Link[Up, Down], take func(context.Context) (calls []Call, more bool), pack func([]Call) ([]*Up, error),
) {
	for more := true; more; {
		var calls []Call
		calls, more = take(l.ctx)
		batches, err := pack(calls)
		if err != nil {
			l.Leave(err)
			return
		}
		for _, batch := range batches {
			if l.stream.Send(batch) != nil {
				return // the reader returns why
			}
		}
	}
	_ = l.stream.CloseSend()
}

// Dialer opens a connection to an address.
type Dialer = func(ctx context.Context, address string) (net.Conn, error)

var errLost = errors.New("the session's connection is lost")

// Once returns a dialer that makes only one connection, for a session. If a server has not read a stream, gRPC would
// open the stream again on the next connection, in the first goroutine that reads or writes. The other goroutine would
// wait for that inside gRPC, where neither a deadline nor a virtual clock has an effect. A session whose connection is
// lost is over.
func Once(dial Dialer) Dialer {
	var made atomic.Bool
	return func(ctx context.Context, address string) (net.Conn, error) {
		if made.Load() {
			return nil, errLost
		}
		conn, err := dial(ctx, address)
		if err == nil {
			made.Store(true)
		}
		return conn, err
	}
}

// Windows of HTTP/2 flow control, the same at both ends of every session. Setting them keeps gRPC from measuring the
// bandwidth with pings of its own, which was a tenth of the cost of a heartbeat.
const (
	// StreamWindowBytes is how much one side may send on a stream before the other has read it. The largest message
	// fits.
	StreamWindowBytes = 1 << 20
	// ConnWindowBytes is that limit for all streams of a connection together.
	ConnWindowBytes = 4 << 20
)
