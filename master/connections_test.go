package master

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/wire"
)

// TestAStreamThatSaysNothingIsClosed: in time, and with a sentence; so is a connection that
// never speaks HTTP/2.
func TestAStreamThatSaysNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		m, err := New(Config{
			ID: "m1", Memory: NewMemory(), Peers: []Peer{{ID: "m1", Addr: "host:5070"}}, GRPC: "host:5060", HTTP: "none", Raft: "host:5070",
			Listen: network.Listen, Dial: network.From("host").Dial, Version: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		for m.leading.Load() == nil {
			<-m.LeadershipChanged()
		}
		mute, err := network.Dial(t.Context(), "host:5060")
		if err != nil {
			t.Fatal(err)
		}
		defer mute.Close()
		conn, err := grpc.NewClient("passthrough:///host:5060", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(network.From("client").Dial))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		scheduler, err := apiv1.NewSchedulerServiceClient(conn).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		agent, err := apiv1.NewAgentServiceClient(conn).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = scheduler.Recv()
		_, also := agent.Recv()
		for _, err := range []error{err, also} {
			if !api.Is(wire.Error(err), api.Unavailable) || time.Since(began) != firstCallMax {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		for read := make([]byte, 1024); ; { // the master's settings come first
			if _, err := mute.Read(read); err != nil {
				break
			}
		}
		if took := time.Since(began); took > 2*handshakeMax {
			t.Errorf("a connection that said nothing was closed after %v", took)
		}
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
