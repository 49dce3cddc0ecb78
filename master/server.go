package master

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/forward"
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
	// readBufferBytes is the size of the read buffer of a connection without TLS, which it has even when it is idle. Larger
	// reads bypass the buffer. With TLS there is none, because TLS has a buffer of its own.
	readBufferBytes = 4 << 10
)

// services are those that are served by gRPC and over HTTP.
type services struct {
	operator operatorService
	raft     raftService
	watch    watchService
	jobs     *forward.Jobs // forwards calls to the job manager
}

func (m *Master) newServer() *grpc.Server {
	server := grpc.NewServer(append(m.proof.taps(),
		grpc.Creds(m.agents.Credentials(m.proof.credentials())),
		grpc.MaxRecvMsgSize(receiveBytesMax),
		grpc.ForceServerCodecV2(wire.Codec()),
		experimental.BufferPool(wire.Buffers()),
		grpc.InitialWindowSize(streamWindowBytes),
		grpc.InitialConnWindowSize(wire.ConnWindowBytes),
		grpc.MaxConcurrentStreams(streamsPerConnMax),
		grpc.MaxHeaderListSize(headerBytesMax),
		grpc.ConnectionTimeout(handshakeMax),
		// Keepalive finds peers that vanished without a word; heartbeats find those that hang.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: m.keepaliveTime(), Timeout: 5 * time.Second, MaxConnectionIdle: idleConnectionMax}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(m.calls.unary),
		grpc.ChainStreamInterceptor(m.calls.streaming),
	)...)
	for _, served := range []struct {
		service grpc.ServiceDesc
		server  any
	}{
		{apiv1.SchedulerService_ServiceDesc, schedulerService{leading: m.leading}},
		{apiv1.OperatorService_ServiceDesc, m.services.operator},
		{apiv1.RaftService_ServiceDesc, m.services.raft},
		{apiv1.StoreService_ServiceDesc, storeService{leading: m.leading}},
		{apiv1.MasterService_ServiceDesc, masterService{config: m.config, raft: m.raft, leading: m.leading}},
		{forward.Service(), m.services.jobs},
		{apiv1.WatchService_ServiceDesc, m.services.watch},
		{apiv1.TrustService_ServiceDesc, trustService{leading: m.leading, proof: m.proof}},
	} {
		server.RegisterService(m.intake.Requests.Served(served.service, m.calls.streaming, m.calls.unary), served.server)
	}
	healthv1.RegisterHealthServer(server, healthService{leading: m.leading})
	reflection.Register(server)
	return server
}

// newAgents makes the server for the sessions of agents, which have connections of their own and no HTTP/2. (Protocol rule R85.)
func (m *Master) newAgents() *direct.Server {
	session := apiv1.AgentService_ServiceDesc.Streams[0]
	info := &grpc.StreamServerInfo{FullMethod: apiv1.AgentService_Session_FullMethodName, IsClientStream: true, IsServerStream: true}
	return direct.NewServer(receiveBytesMax, func(stream grpc.ServerStream) error {
		return m.calls.streaming(agentService{leading: m.leading}, stream, info, session.Handler)
	})
}

// keepaliveTime is how long a peer may be silent before a keepalive probe. It is so long that a peer that sends
// heartbeats is never probed.
func (m *Master) keepaliveTime() time.Duration {
	return max(10*time.Second, 2*m.config.Core.SessionTimeout)
}
