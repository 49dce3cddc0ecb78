package direct

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// lastMax is how long a client has to close the connection when its stream has ended.
const lastMax = time.Second

// Server serves a stream on each connection that begins with the greeting. It shares a listener with a gRPC server.
type Server struct {
	serve func(grpc.ServerStream) error
	most  int

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // guarded by mu; nil: it is closed
	streams sync.WaitGroup
}

// NewServer makes a server whose streams are handled by serve and take messages of at most so many bytes. What serve
// returns is told to the client.
func NewServer(most int, serve func(grpc.ServerStream) error) *Server {
	return &Server{serve: serve, most: most, conns: make(map[net.Conn]struct{})}
}

// Credentials returns the credentials for a gRPC server that does not get the connections of this one. inner does the
// handshake.
func (s *Server) Credentials(inner credentials.TransportCredentials) credentials.TransportCredentials {
	return dispatcher{inner, s}
}

type dispatcher struct {
	credentials.TransportCredentials
	server *Server
}

// ServerHandshake looks at the first byte after the handshake.
func (d dispatcher) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	first := make([]byte, 1, len(greeting))
	if _, err := io.ReadFull(conn, first); err != nil {
		return nil, nil, err
	}
	if first[0] != greeting[0] {
		return &begun{conn, first}, info, nil
	}
	all := first[:len(greeting)]
	if _, err := io.ReadFull(conn, all[1:]); err != nil {
		return nil, nil, err
	}
	if string(all) != greeting || !d.server.take(conn, info) {
		return nil, nil, errors.New("a stream of another kind, or nothing is served any more")
	}
	return nil, nil, credentials.ErrConnDispatched
}

// Clone returns credentials that dispatch to the same server.
func (d dispatcher) Clone() credentials.TransportCredentials { return d }

// begun is a connection of which the first byte was read.
type begun struct {
	net.Conn
	first []byte // what of that nobody has read
}

func (b *begun) Read(into []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(into)
	}
	n := copy(into, b.first)
	b.first = b.first[n:]
	return n, nil
}

// take serves a stream on a connection, unless the server is closed.
func (s *Server) take(conn net.Conn, info credentials.AuthInfo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[conn] = struct{}{}
	s.streams.Go(func() {
		s.run(conn, info)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	})
	return true
}

func (s *Server) run(conn net.Conn, info credentials.AuthInfo) {
	stream := &serverStream{end: end{conn: conn, most: s.most}}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: conn.RemoteAddr(), LocalAddr: conn.LocalAddr(), AuthInfo: info})
	stream.ctx, stream.cancel = context.WithCancel(context.WithValue(ctx, streamKey{}, stream))
	stream.hangUp(s.serve(stream))
	_, _ = io.Copy(io.Discard, conn) // it ends when the client closes, or when it is late
	_ = conn.Close()
	stream.late.Stop()
}

// streamKey is the key under which the context of a stream has the stream.
type streamKey struct{}

// HangUp returns the function that ends the stream with this context from outside, with an error for its client, so that
// its handler receives no more.
func HangUp(ctx context.Context) func(error) {
	return ctx.Value(streamKey{}).(*serverStream).hangUp
}

// Wait returns when all streams have ended.
func (s *Server) Wait() { s.streams.Wait() }

// Close closes all connections, and takes no more.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns { // order: irrelevant because all are closed
		_ = conn.Close() // who reads from it gets an error
	}
	s.conns = nil
}

// serverStream is the server's end of a stream.
type serverStream struct {
	end
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once // ends it
	ended  atomic.Bool
	late   *time.Timer // closes the connection; set when it has ended
}

// Context returns a context that ends with the stream, or when it is found while receiving that the client is gone.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message; io.EOF means that the client sends no more.
func (s *serverStream) RecvMsg(into any) error {
	kind, body, err := s.receive()
	return s.received(into, kind, body, err)
}

func (s *serverStream) received(into any, kind byte, body mem.BufferSlice, err error) error {
	defer body.Free()
	switch {
	case s.ended.Load():
		return errEnded
	case err != nil:
		if refused := (*api.Error)(nil); errors.As(err, &refused) {
			s.hangUp(refused) // whatever the handler makes of it, the client is told
		}
		s.cancel()
		return err
	case kind == kindEnd:
		return io.EOF
	}
	return wire.Codec().Unmarshal(body, into)
}

var errEnded = errors.New("the stream has ended")

// hangUp ends the stream; the first time counts. The client is told why, unless it has not read what was sent before, and
// has some time to close the connection: if that were closed here at once, the kernel could throw away what the client has
// not read.
func (s *serverStream) hangUp(why error) {
	s.once.Do(func() {
		s.ended.Store(true)
		s.cancel()
		s.late = time.AfterFunc(lastMax, func() { _ = s.conn.Close() }) // who waits for it gets an error
		if !s.sending.TryLock() {
			_ = s.conn.Close()
			return
		}
		defer s.sending.Unlock()
		body, _ := proto.Marshal(wire.ErrorToProto(wire.Error(why))) // a message of ours can always be written
		_ = s.send(kindEnd, mem.BufferSlice{mem.SliceBuffer(body)})  // if it fails, the client is gone
	})
}

// SetHeader, SendHeader and SetTrailer do nothing: there are neither headers nor trailers.
func (s *serverStream) SetHeader(metadata.MD) error  { return nil }
func (s *serverStream) SendHeader(metadata.MD) error { return nil }
func (s *serverStream) SetTrailer(metadata.MD)       {}
