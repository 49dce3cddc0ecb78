package master_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master"
)

// tar blocks the loop of the next master whose policy is told of a role, until it is closed.
var tar atomic.Pointer[chan struct{}]

type sticky struct{ allocator.Allocator }

func (s sticky) SetRole(role allocator.Role) {
	if hold := tar.Swap(nil); hold != nil {
		<-*hold
	}
	s.Allocator.SetRole(role)
}

func init() {
	allocator.Register("sticky", func(config allocator.Config) (allocator.Allocator, error) {
		policy, err := allocator.Make("fairshare", config)
		return sticky{policy}, err
	})
}

// threePeers are the founders of a quorum in memory.
func threePeers() (peers []master.Peer) {
	for i := range 3 {
		peers = append(peers, master.Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprintf("host%d:5070", i+1)})
	}
	return peers
}

// TestAStuckLoopEndsItsLeadership (R36): Raft does not continue for it, another master leads, and the log says where
// the loop is stuck. The process lives on, and ends well.
func TestAStuckLoopEndsItsLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := new(notebook)
		log := zerolog.New(said)
		h := newHouse(t, 0)
		peers := threePeers()
		for i, peer := range peers {
			host := fmt.Sprint("host", i+1)
			h.start(master.Config{
				ID: peer.ID, Memory: master.NewMemory(), Peers: peers, GRPC: host + ":5060", HTTP: host + ":5050", Raft: host + ":5070",
				Listen: h.net.Listen, Dial: h.net.From(host).Dial, Logger: &log, Version: "test", Allocator: "sticky",
			})
		}
		first := h.leader()
		term, _ := first.Leading()
		conn := h.connect(first.GRPCAddr())
		agent := h.newNode(first.GRPCAddr(), "n1")
		defer agent.stop()
		hold := make(chan struct{})
		tar.Store(&hold)
		began := time.Now()
		weight := 2.0
		_, err := apiv1.NewOperatorServiceClient(conn).SetRole(t.Context(), &apiv1.SetRoleRequest{Role: "web", Weight: &weight})
		if !api.Is(wire.Error(err), api.Unknown) || tar.Load() != nil {
			t.Errorf("the outcome was not known to the caller: %v", err)
		}
		next := h.leader()
		if took := time.Since(began); took < 15*time.Second || took > 25*time.Second {
			t.Errorf("the next leader leads after %v; a round may take 15 s", took)
		}
		if again, _ := next.Leading(); again.Compare(term) <= 0 || next.ID() == first.ID() {
			t.Errorf("%s leads in term %v after %s in %v", next.ID(), again, first.ID(), term)
		}
		if _, err := agent.stream.Recv(); err == nil { // what was under way
			_, err = agent.stream.Recv()
			if err == nil {
				t.Error("the agent's stream goes on")
			}
		}
		_ = conn.Close()
		text := said.String()
		if !strings.Contains(text, "the leader's loop is stuck") || !strings.Contains(text, "sticky.SetRole") {
			t.Errorf("the log does not have the evidence: %s", text)
		}
		close(hold)
		synctest.Wait()
		if metrics := h.metricsOf(first); !strings.Contains(metrics, "tender_loop_stuck_total 1") {
			t.Error("it is not counted")
		}
		h.close()
	})
}

// TestHealthTellsTheTruth: gRPC's health says what /readyz says, at once and to whoever
// watches it.
func TestHealthTellsTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 0)
		defer h.close()
		peers := threePeers()
		start := func(i int) *running {
			host := fmt.Sprint("host", i+1)
			return h.start(master.Config{
				ID: peers[i].ID, Memory: master.NewMemory(), Peers: peers, GRPC: host + ":5060", HTTP: host + ":5050", Raft: host + ":5070",
				Listen: h.net.Listen, Dial: h.net.From(host).Dial, Version: "test",
			})
		}
		conn := h.connect(start(0).GRPCAddr())
		defer conn.Close()
		health := healthv1.NewHealthClient(conn)
		watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		says := func(want healthv1.HealthCheckResponse_ServingStatus) {
			t.Helper()
			if seen, err := watch.Recv(); err != nil || seen.GetStatus() != want {
				t.Errorf("the watcher sees %v, %v", seen, err)
			}
			if now, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || now.GetStatus() != want {
				t.Errorf("it is %v, %v", now, err)
			}
		}
		says(healthv1.HealthCheckResponse_NOT_SERVING)
		start(1)
		start(2)
		says(healthv1.HealthCheckResponse_SERVING)
		h.stop("m2")
		h.stop("m3")
		says(healthv1.HealthCheckResponse_NOT_SERVING)
		if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "lunch"}); !api.Is(wire.Error(err), api.NotFound) {
			t.Errorf("a service that is not there: %v", err)
		}
	})
}
