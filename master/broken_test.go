package master_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/master"
)

// fuse breaks the core of the next master whose policy is told of a role.
var fuse atomic.Bool

type fragile struct{ allocator.Allocator }

func (f fragile) SetRole(role allocator.Role) {
	invariant.Check(!fuse.CompareAndSwap(true, false), "role %s was bound to break it", role.Role)
	f.Allocator.SetRole(role)
}

func init() {
	allocator.Register("fragile", func(config allocator.Config) (allocator.Allocator, error) {
		policy, err := allocator.Make("fairshare", config)
		return fragile{policy}, err
	})
}

// TestABrokenCoreEndsItsLeadership: R18. It does not end its process or the next leader, which gets the same from the
// registry. What was committed stays, and the log has the evidence.
func TestABrokenCoreEndsItsLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := new(notebook)
		log := zerolog.New(said)
		h := newHouse(t, 0)
		var peers []master.Peer
		for i := range 3 {
			peers = append(peers, master.Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprintf("host%d:5070", i+1)})
		}
		for i, peer := range peers {
			host := fmt.Sprint("host", i+1)
			h.start(master.Config{
				ID: peer.ID, Memory: master.NewMemory(), Peers: peers, GRPC: host + ":5060", HTTP: host + ":5050", Raft: host + ":5070",
				Listen: h.net.Listen, Dial: h.net.From(host).Dial, Logger: &log, Version: "test", Allocator: "fragile",
			})
		}
		first := h.leader()
		term, _ := first.Leading()
		conn := h.connect(first.GRPCAddr())
		weight := 2.0
		fuse.Store(true)
		_, err := apiv1.NewOperatorServiceClient(conn).SetRole(t.Context(), &apiv1.SetRoleRequest{Role: "web", Weight: &weight})
		_ = conn.Close()
		if fuse.Load() {
			t.Errorf("nothing broke: %v", err)
		}
		if !strings.Contains(h.metricsOf(first), "\ntender_core_broken_total 1\n") {
			t.Error("it is not counted")
		}
		next := h.leader()
		if again, _ := next.Leading(); again.Compare(term) <= 0 {
			t.Errorf("term %v after %v", again, term)
		}
		conn = h.connect(next.GRPCAddr())
		roles, err := apiv1.NewOperatorServiceClient(conn).ListRoles(t.Context(), &apiv1.ListRequest{Prefix: "web"})
		if err != nil || len(roles.GetItems()) != 1 || roles.GetItems()[0].GetWeight() != weight {
			t.Errorf("roles: %v, %v", roles, err)
		}
		_ = conn.Close()
		h.close() // each process ends well, the first leader's too
		if text := said.String(); strings.Count(text, "the core is broken") == 0 || !strings.Contains(text, "role web was bound to break it") {
			t.Error("the log does not have the evidence")
		}
	})
}
