package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Link is a client's end of one stream, on a connection of its own. One goroutine reads and one writes; both end with
// the stream, and the reader says why it has ended.
type Link[Up, Down any] struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[Up, Down]
	ctx    context.Context
	end    context.CancelCauseFunc
}

// Open opens a stream within the time of opening, whose cause is the error then; the stream lives as long as life. The
// connection is the link's, also when there will be none.
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

// Context ends with the stream, when this side ends it.
func (l *Link[Up, Down]) Context() context.Context { return l.ctx }

// Conn is for other calls to the same server.
func (l *Link[Up, Down]) Conn() *grpc.ClientConn { return l.conn }

// Leave ends the stream for a reason of this side, which the reader returns.
func (l *Link[Up, Down]) Leave(why error) { l.end(why) }

// Close ends the stream and its connection.
func (l *Link[Up, Down]) Close() {
	l.end(nil)
	_ = l.conn.Close() // fails only when it is closed already
}

// Read gives each message to hear until the stream ends or hear fails, and returns why: the reason of this side, if it
// has left.
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

// Write sends what take hands out, in order, in as few messages as pack makes of it, until there is no more to come or
// the stream has ended. What can't be packed ends the stream: who waits for it would wait for ever.
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
				return // the reader sees why
			}
		}
	}
	_ = l.stream.CloseSend()
}

// Dialer makes a connection to an address.
type Dialer = func(ctx context.Context, address string) (net.Conn, error)

var errLost = errors.New("the session's connection is lost")

// Once is a dialer of a session: it makes one connection. A stream that its server has left unread would else be
// opened anew on the next connection, by whoever reads or writes first, and the other one waits for that inside gRPC,
// where neither a deadline nor a virtual clock reaches it. A session whose connection is lost is over.
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

// Windows of HTTP/2 flow control, the same at both ends of every session. That they are said at all keeps
// gRPC from measuring the bandwidth with pings of its own beside the messages: a tenth of what a heartbeat cost.
const (
	// StreamWindowBytes is how much one side may send on a stream before the other has read it. It holds
	// the largest message.
	StreamWindowBytes = 1 << 20
	// ConnWindowBytes is the same for all streams of a connection together.
	ConnWindowBytes = 4 << 20
)
