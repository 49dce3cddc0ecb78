package master_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master"
	"github.com/tenderhq/tender/master/core"
)

// onSockets runs a test against a master on real sockets. No session ends because of its silence, so the peer under
// test need not send heartbeats.
func onSockets(t *testing.T, test func(*master.Master)) {
	t.Helper()
	lead(t, master.Config{
		ID: "m1", DataDir: t.TempDir(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast", Trust: open,
		Core: core.Config{SessionTimeout: time.Hour},
	}, test)
}

// dial is a connection of its own.
func dial(t *testing.T, m *master.Master) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(m.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// flood sends the same again and again, like a peer that reads nothing and whose every message is answered, until done,
// but never more than would fill everything in between. The sender may wait forever once its stream is over, because it
// does not read that. So another goroutine watches, and stop ends the stream.
func flood(t *testing.T, send func() error, stop func(), done func() bool) {
	t.Helper()
	const messages = 400
	said := make(chan struct{})
	go func() {
		defer close(said)
		for range messages {
			if send() != nil {
				return
			}
		}
	}()
	defer func() { <-said }()
	defer stop()
	for looks := 0; looks < 1000; {
		if done() {
			return
		}
		select {
		case <-said:
			looks++
		default:
		}
	}
	t.Errorf("after %d messages nobody has noticed that nothing is read", messages)
}

// TestASchedulerThatReadsNothingIsCutOff: it continues to send heartbeats, each of which is answered. Its queue runs
// over while the writer waits in Send. At that moment the framework is disconnected, and what it was offered goes to
// others.
func TestASchedulerThatReadsNothingIsCutOff(t *testing.T) {
	onSockets(t, func(m *master.Master) {
		honest := dial(t, m)
		agent := newNode(t, transport.DialTCP, m.GRPCAddr(), "n1")
		defer agent.stop()
		deaf := newScheduler(t, dial(t, m), protocol.Subscribe{Framework: api.Framework{Name: "deaf", Roles: []api.Role{"web"}}, Instance: "i1"})
		defer deaf.stop()
		awaitEvent[protocol.Offers](deaf) // the last that it reads
		operator := apiv1.NewOperatorServiceClient(honest)
		flood(t, func() error {
			beats := make([]protocol.NumberedCall, 4000)
			for i := range beats {
				deaf.number++
				beats[i] = protocol.NumberedCall{Number: deaf.number, Call: protocol.SchedulerHeartbeat{}}
			}
			return deaf.stream.Send(wire.SchedulerCallsToProto(beats))
		}, deaf.stop, func() bool {
			list, err := operator.ListFrameworks(t.Context(), &apiv1.ListRequest{})
			return err == nil && len(list.Items) == 1 && list.Items[0].State == "disconnected" && strings.Contains(list.Items[0].Why, "too slowly")
		})
		next := newScheduler(t, honest, protocol.Subscribe{Framework: api.Framework{Name: "next", Roles: []api.Role{"web"}}, Instance: "i2"})
		defer next.stop()
		if offers := awaitEvent[protocol.Offers](next).Offers; !offers[0].Resources.Equal(api.Scalars(4, 4096)) {
			t.Errorf("the next framework is offered %v", offers[0].Resources)
		}
	})
}

// TestAnAgentThatReadsNothingIsCutOff: the same of an agent, whose connection is closed, so that it notices. The buffers
// of a real socket take the answers of minutes, because the agent is held for its heartbeats.
func TestAnAgentThatReadsNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		defer h.close()
		address := h.leader().GRPCAddr()
		agent := h.newNode(address, "n1")
		defer agent.stop()
		beats := make([]protocol.AgentCall, 4000)
		for i := range beats {
			beats[i] = protocol.AgentHeartbeat{}
		}
		const most = 100
		messages := 0
		for messages < most && agent.stream.Send(wire.AgentCallsToProto(beats)) == nil {
			messages++
		}
		if messages == most {
			t.Errorf("after %d messages nobody has noticed that nothing is read", messages)
		}
		synctest.Wait()
		conn := h.connect(address)
		defer conn.Close()
		list, err := apiv1.NewOperatorServiceClient(conn).ListAgents(t.Context(), &apiv1.ListRequest{})
		if err != nil || len(list.Items) != 1 || list.Items[0].State != "DISCONNECTED" || !strings.Contains(list.Items[0].Why, "too slowly") {
			t.Errorf("it is listed as %v, %v", list, err)
		}
	})
}

// TestWatchesOfAStoreAreFew: one more than allowed is refused with a sentence, and a watcher that leaves makes room.
func TestWatchesOfAStoreAreFew(t *testing.T) {
	const most = 16
	onSockets(t, func(m *master.Master) {
		conn := dial(t, m)
		session := subscribed(t, conn, "", "i1")
		stub := apiv1.NewStoreServiceClient(conn)
		if _, err := master.WriteStore(t.Context(), stub, session, &apiv1.StoreWrite{Key: "k", Write: 1}); err != nil {
			t.Fatal(err)
		}
		watch := func() (context.CancelFunc, error) {
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := stub.Watch(ctx, &apiv1.StoreWatchRequest{Session: session})
			if err == nil {
				_, err = stream.Recv() // the one that is there
			}
			return cancel, err
		}
		var leave context.CancelFunc
		for i := range most {
			var err error
			if leave, err = watch(); err != nil {
				t.Fatalf("watch %d: %v", i+1, err)
			}
			defer leave()
		}
		if _, err := watch(); !api.Is(wire.Error(err), api.Limit) || !strings.Contains(fmt.Sprint(err), "16 watch this store already") {
			t.Errorf("one more: %v", err)
		}
		leave()
		for range 10_000 {
			if stop, err := watch(); err == nil {
				stop()
				return
			}
		}
		t.Error("who left has made no room")
	})
}
