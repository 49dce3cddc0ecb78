package master

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/forward"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
)

const (
	// receiveBytesMax leaves room for the message around a store's largest value.
	receiveBytesMax = api.MessageBytesMax + 64<<10
	// streamsPerConnMax bounds the calls and streams of one connection; further ones wait. It is the least that HTTP/2
	// recommends, because each has a goroutine and a window of bytes that are not read yet.
	streamsPerConnMax = 100
	// streamWindowBytes is how much may arrive on a stream before it is read. While a larger message is being read, the
	// rest of it may arrive too. All streams have the same window, so it is the least that gRPC allows.
	streamWindowBytes = 64 << 10
	// readBufferBytes is the size of each connection's read buffer, which it has even when it is idle. With gRPC's
	// default of 32 KiB ten thousand agents would have 320 MB. Larger reads bypass the buffer.
	readBufferBytes = 4 << 10
)

func (m *Master) newServer() *grpc.Server {
	server := grpc.NewServer(append(m.credentials(),
		grpc.MaxRecvMsgSize(receiveBytesMax),
		grpc.ForceServerCodecV2(wire.Codec()),
		experimental.BufferPool(wire.Buffers()),
		grpc.InitialWindowSize(streamWindowBytes),
		grpc.InitialConnWindowSize(wire.ConnWindowBytes),
		grpc.MaxConcurrentStreams(streamsPerConnMax),
		grpc.ReadBufferSize(readBufferBytes),
		grpc.ConnectionTimeout(handshakeMax),
		// Keepalive finds peers that vanished without a word; heartbeats find those that hang.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: m.keepaliveTime(), Timeout: 5 * time.Second, MaxConnectionIdle: idleConnectionMax}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(m.unary),
		grpc.ChainStreamInterceptor(m.streaming),
	)...)
	for _, one := range []struct {
		service grpc.ServiceDesc
		server  any
	}{
		{apiv1.SchedulerService_ServiceDesc, schedulerService{master: m}},
		{apiv1.AgentService_ServiceDesc, agentService{master: m}},
		{apiv1.OperatorService_ServiceDesc, operatorService{master: m}},
		{apiv1.RaftService_ServiceDesc, raftService{master: m}},
		{apiv1.StoreService_ServiceDesc, storeService{master: m}},
		{apiv1.MasterService_ServiceDesc, masterService{master: m}},
		{forward.Service(), m.jobs},
		{apiv1.WatchService_ServiceDesc, watchService{master: m}},
		{apiv1.TrustService_ServiceDesc, trustService{master: m}},
	} {
		server.RegisterService(m.intake.Requests.Served(one.service, m.streaming, m.unary), one.server)
	}
	healthv1.RegisterHealthServer(server, healthService{master: m})
	reflection.Register(server)
	return server
}

// keepaliveTime is how long a peer may be silent before a keepalive probe. It is so long that a peer that sends
// heartbeats is never probed.
func (m *Master) keepaliveTime() time.Duration {
	return max(10*time.Second, 2*m.config.Core.SessionTimeout)
}

// unary turns every error into a gRPC status, and every panic into an error, so that no request ends a master.
func (m *Master) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if evidence := recover(); evidence != nil {
			err = m.panicked(info.FullMethod, evidence)
		}
		m.metrics.called(info.FullMethod, err)
		m.guard.Done(ctx, request, err)
		err = wire.Status(err)
	}()
	if ctx, err = m.guard.Admit(ctx, info.FullMethod); err != nil {
		return nil, m.denied(ctx, info.FullMethod, err)
	}
	end, err := m.guard.Share(ctx, "calls", callsPerPrincipalMax)
	if err != nil {
		return nil, err
	}
	defer end()
	leave, err := admit(&m.under.calls, callsMax, "calls", info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer leave()
	return handle(ctx, request)
}

// streaming asks the guard before anything is read, and does for streams what unary does for calls.
func (m *Master) streaming(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	ctx, err := m.guard.Admit(stream.Context(), info.FullMethod)
	call := !info.IsClientStream && !info.IsServerStream // a call with one request and one answer; see intake.Requests
	if err != nil {
		return wire.Status(m.denyStream(ctx, info.FullMethod, err, func() error {
			if !call {
				return nil // its messages are read only from callers who may send them
			}
			intake.SenderOf(ctx).BelongsTo(guard.CallerOf(ctx).Principal())
			return handle(server, guard.OnStream(ctx, stream)) // unary denies the call, and knows the request
		}))
	}
	intake.SenderOf(ctx).BelongsTo(guard.CallerOf(ctx).Principal())
	if call {
		return wire.Status(handle(server, guard.OnStream(ctx, stream))) // its handler goes through unary
	}
	var first any // the first message of the request
	ctx, left := m.guard.Enter(ctx)
	defer func() {
		if evidence := recover(); evidence != nil {
			err = m.panicked(info.FullMethod, evidence)
		}
		if ended := left(); ended != nil {
			err = ended
		}
		m.metrics.called(info.FullMethod, err)
		m.guard.Done(ctx, first, err)
		err = wire.Status(err)
	}()
	end, err := m.guard.Share(ctx, "streams", streamsPerPrincipalMax)
	if err != nil {
		return err
	}
	defer end()
	leave, err := admit(&m.under.streams, streamsMax, "streams", info.FullMethod)
	if err != nil {
		return err
	}
	defer leave()
	stream = guard.OnStream(ctx, stream)
	if !info.IsClientStream {
		stream = intake.Counted(stream)
	}
	if guard.WritesDown(ctx) {
		stream = opened{stream, &first}
	}
	return handle(server, stream)
}

// opened is a stream that keeps its first message.
type opened struct {
	grpc.ServerStream
	first *any
}

// RecvMsg receives a message from the stream, and keeps the first one.
func (o opened) RecvMsg(into any) error {
	err := o.ServerStream.RecvMsg(into)
	if err == nil && *o.first == nil {
		*o.first = into
	}
	return err
}

// denyStream records that a call was denied, and returns the error for its caller.
func (m *Master) denyStream(ctx context.Context, method string, denied error, ask func() error) error {
	alone := m.tellDenied(ctx, denied, ask)
	denied = m.denied(ctx, method, denied)
	if alone {
		m.metrics.called(method, denied)
	}
	return denied
}

// tellDenied tells the guard that a call was denied. If the audit log has a line for such calls, ask continues with the
// call, which is denied again as soon as its request has been read; so the line can name what the call was about. The
// caller may break off before that. It returns true when this was the only report, so that the call has not been
// counted yet.
func (m *Master) tellDenied(ctx context.Context, denied error, ask func() error) (alone bool) {
	if guard.WritesDown(ctx) {
		_ = ask() // whatever reading it returned, the call was denied
	}
	return m.guard.Done(ctx, nil, denied)
}

func (m *Master) panicked(method string, evidence any) error {
	m.log.Error().Str("method", method).Str("evidence", fmt.Sprint(evidence)).Str("stack", string(debug.Stack())).Msg("a call panicked")
	return api.E("master.call", api.Internal, method, fmt.Errorf("the master made a mistake: %v", evidence))
}
