package direct

import (
	"cmp"
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// Open opens a connection and a stream on it that takes messages of at most so many bytes. Both end with ctx.
func Open[Up, Down any](ctx context.Context, dial wire.Dialer, address string, most int) (grpc.BidiStreamingClient[Up, Down], error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s := &clientStream{end: end{conn: conn, most: most}, ctx: ctx}
	s.stay = context.AfterFunc(ctx, func() { _ = conn.Close() }) // who reads from it gets an error
	if _, err := io.WriteString(conn, greeting); err != nil {
		s.close()
		return nil, err
	}
	return &grpc.GenericClientStream[Up, Down]{ClientStream: s}, nil
}

// clientStream is the client's end of a stream.
type clientStream struct {
	end
	ctx  context.Context
	stay func() bool // the end of ctx no longer closes the connection
}

// Context returns the context with which the stream ends.
func (s *clientStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message, or the error with which the stream has ended; io.EOF if that is none.
func (s *clientStream) RecvMsg(into any) error {
	kind, body, err := s.receive()
	defer body.Free()
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case err == nil && kind == kindMessage:
		return wire.Codec().Unmarshal(body, into)
	}
	s.close()
	if err != nil || body.Len() == 0 {
		return cmp.Or(err, io.EOF)
	}
	said := new(apiv1.Error)
	if err := proto.Unmarshal(body.Materialize(), said); err != nil {
		return err
	}
	return wire.ErrorFromProto(said)
}

// close ends the stream, so that the server may forget it.
func (s *clientStream) close() {
	s.stay()
	_ = s.conn.Close() // nothing more is read from it
}

// CloseSend says that nothing more is sent.
func (s *clientStream) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.send(kindEnd, nil)
}

// Header and Trailer return nothing: there are neither headers nor trailers.
func (s *clientStream) Header() (metadata.MD, error) { return nil, nil }
func (s *clientStream) Trailer() metadata.MD         { return nil }
