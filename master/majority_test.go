package master_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master"
)

// refusals are what a master answers to each thing that needs a leader.
func (h *house) refusals(ctx context.Context, address string) map[string]error {
	conn := h.connect(address)
	defer conn.Close()
	operator := apiv1.NewOperatorServiceClient(conn)
	weight := 2.0
	refused := map[string]error{}
	_, refused["read"] = operator.ListAgents(ctx, &apiv1.ListRequest{})
	_, refused["write"] = operator.SetRole(ctx, &apiv1.SetRoleRequest{Role: "web", Weight: &weight})
	session := &apiv1.StoreSession{FrameworkId: "framework-1", Session: 1, Instance: "i"}
	_, refused["store"] = master.WriteStore(ctx, apiv1.NewStoreServiceClient(conn), session, &apiv1.StoreWrite{Key: "k", Write: 1})
	if stream, err := apiv1.NewSchedulerServiceClient(conn).Session(ctx); err == nil {
		_, refused["subscription"] = stream.Recv()
	}
	_, refused["agent"] = master.OpenAgent(ctx, h.t, h.net.From("client").Dial, address).Recv()
	return refused
}

// TestLossOfMajority: what is left of three masters answers stale reads with their index, tells all others which
// masters are missing, and continues by itself when one is back.
func TestLossOfMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		h.newNode(h.leader().GRPCAddr(), "n1").stop()
		<-time.After(5 * time.Second) // every master has announced itself
		asked := h.connect(h.leader().GRPCAddr())
		all, err := apiv1.NewOperatorServiceClient(asked).ListMasters(t.Context(), &apiv1.ListRequest{})
		if err != nil || len(all.GetItems()) != 3 {
			t.Errorf("all masters: %v, %v", all, err)
		}
		for _, each := range all.GetItems() {
			if each.GetAppliedIndex() == 0 || each.GetWhy() != "" {
				t.Errorf("%s says no index of its own: %v", each.GetId(), each)
			}
		}
		_ = asked.Close()
		lost := map[api.MasterID]master.Config{}
		for _, id := range []api.MasterID{"m1", "m2"} {
			lost[id] = h.masters[id].config
			h.stop(id)
		}
		<-time.After(10 * time.Second)

		left := h.connect(h.masters["m3"].GRPCAddr())
		defer left.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for what, err := range h.refusals(ctx, h.masters["m3"].GRPCAddr()) {
			said := wire.Error(err)
			if said == nil || said.Kind != api.NotLeader || !strings.Contains(said.Error(), "1 of 3 masters answer and 2 are needed; silent: m1 at host1:5070, m2 at host2:5070") {
				t.Errorf("%s without a majority: %v", what, err)
			}
		}
		operator := apiv1.NewOperatorServiceClient(left)
		agents, err := operator.ListAgents(ctx, &apiv1.ListRequest{Stale: true})
		if err != nil || len(agents.GetItems()) != 1 || agents.GetAppliedIndex() == 0 || agents.GetItems()[0].GetWhy() == "" {
			t.Errorf("a stale read: %v, %v", agents, err)
		}
		masters, err := operator.ListMasters(ctx, &apiv1.ListRequest{Stale: true})
		if err != nil || len(masters.GetItems()) != 3 || masters.GetAppliedIndex() != agents.GetAppliedIndex() {
			t.Errorf("stale masters: %v, %v", masters, err)
		}
		frameworks, err := operator.ListFrameworks(ctx, &apiv1.ListRequest{Stale: true})
		if err != nil || frameworks.GetAppliedIndex() != agents.GetAppliedIndex() {
			t.Errorf("stale frameworks: %v, %v", frameworks, err)
		}
		roles, err := operator.ListRoles(ctx, &apiv1.ListRequest{Stale: true})
		if err != nil || roles.GetAppliedIndex() != agents.GetAppliedIndex() {
			t.Errorf("stale roles: %v, %v", roles, err)
		}

		h.start(lost["m1"])
		conn := h.connect(h.leader().GRPCAddr())
		defer conn.Close()
		weight := 2.0
		if _, err := apiv1.NewOperatorServiceClient(conn).SetRole(ctx, &apiv1.SetRoleRequest{Role: "web", Weight: &weight}); err != nil {
			t.Errorf("with a majority again: %v", err)
		}
		h.newNode(h.leader().GRPCAddr(), "n1").stop()
		<-time.After(3 * time.Second)
		if _, err := operator.ListAgents(ctx, &apiv1.ListRequest{}); err != nil && strings.Contains(err.Error(), "are needed") {
			t.Errorf("it still misses a majority: %v", err)
		}
	})
}

// TestVersions: R24. Neighbours one minor version apart work together; agents and
// schedulers two apart are refused with a sentence that names both.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 0)
		defer h.close()
		log := zerolog.Nop()
		h.start(master.Config{
			ID: "m1", Memory: master.NewMemory(), GRPC: "host1:5060", HTTP: "host1:5050", Raft: "host1:5070",
			Listen: h.net.Listen, Dial: h.net.From("host1").Dial, Logger: &log, Version: "v0.5.2",
		})
		conn := h.connect(h.leader().GRPCAddr())
		defer conn.Close()
		for i, test := range []struct {
			version string
			refused bool
		}{
			{"v0.4.0", false}, {"v0.5.0", false}, {"v0.6.1 (5d2c1e07a9b4)", false}, {"devel", false}, {"v0.3.9", true}, {"v0.7.0", true}, {"v1.5.0", true},
		} {
			nonce := api.Nonce(fmt.Sprint("n", i))
			for what, err := range map[string]error{
				"agent": firstAnswer(func(ctx context.Context, _ ...grpc.CallOption) (master.AgentStream, error) {
					return master.OpenAgent(ctx, t, h.net.From("client").Dial, h.leader().GRPCAddr()), nil
				}, t, wire.AgentCallsToProto([]protocol.AgentCall{
					protocol.RegisterAgent{Agent: api.Agent{Hostname: "h"}, Nonce: nonce, BootID: "b", Version: test.version},
				})),
				"scheduler": firstAnswer(apiv1.NewSchedulerServiceClient(conn).Session, t, wire.SchedulerCallsToProto([]protocol.NumberedCall{{
					Number: 1, Call: protocol.Subscribe{Framework: api.Framework{Name: "f"}, Instance: nonce, Version: test.version},
				}})),
			} {
				said := wire.Error(err)
				switch {
				case !test.refused && err != nil:
					t.Errorf("%s of version %s: %v", what, test.version, err)
				case test.refused && (said == nil || said.Kind != api.Unsupported || !strings.Contains(said.Error(), "v0.5.2") || !strings.Contains(said.Error(), test.version)):
					t.Errorf("%s of version %s is answered %v", what, test.version, err)
				}
			}
		}
		masters, err := apiv1.NewOperatorServiceClient(conn).ListMasters(t.Context(), &apiv1.ListRequest{})
		if err != nil || !strings.Contains(masters.GetItems()[0].GetWhy(), "it has refused ") {
			t.Errorf("the list of masters says nothing of the refused: %v, %v", masters, err)
		}
		if metrics := h.metricsOf(h.masters["m1"]); !strings.Contains(metrics, "tender_versions_refused_total 6") {
			t.Errorf("the refused are not counted:\n%s", metrics)
		}
	})
}

// firstAnswer opens a session with one message and returns how that was taken.
func firstAnswer[Calls, Events any, Stream grpc.BidiStreamingClient[Calls, Events]](
	open func(context.Context, ...grpc.CallOption) (Stream, error), t *testing.T, first *Calls,
) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := open(ctx)
	if err == nil {
		err = stream.Send(first)
	}
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}
