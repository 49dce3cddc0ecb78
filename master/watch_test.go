package master_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/witness"
)

// TestTheClusterIsWatched: watchers at the leader and at a follower see every change once and in order, their copies
// equal the lists at every rest, and when the leader changes they are told what they may have missed (R68).
func TestTheClusterIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		first := h.leader()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		others := slices.DeleteFunc(slices.Collect(func(yield func(*running) bool) {
			for _, r := range h.masters {
				if !yield(r) {
					return
				}
			}
		}), func(r *running) bool { return r == first })
		var leads atomic.Pointer[string]
		lead := func(r *running) { address := r.GRPCAddr(); leads.Store(&address) }
		lead(first)
		court := &witness.Court{Broken: t.Errorf}
		watch := func(name string, request *apiv1.WatchRequest, at func() string) *witness.Witness {
			return court.Stay(ctx, name, request, func() *grpc.ClientConn { return h.connect(at()) })
		}
		var witnesses []*witness.Witness
		for i, at := range others {
			witnesses = append(witnesses, watch(fmt.Sprint("follower ", i), &apiv1.WatchRequest{}, at.GRPCAddr))
		}
		witnesses = append(witnesses, watch("leader", &apiv1.WatchRequest{}, func() string { return *leads.Load() }))
		only := watch("events", &apiv1.WatchRequest{EventsOnly: true}, others[0].GRPCAddr)
		tasks := watch("tasks", &apiv1.WatchRequest{Kinds: []string{"task"}, AgentId: "agent-1"}, others[1].GRPCAddr)
		<-time.After(2 * time.Second) // everybody has begun

		conn := h.connect(first.GRPCAddr())
		agent := h.newNode(first.GRPCAddr(), "n1")
		framework := newScheduler(t, conn, protocol.Subscribe{Framework: api.Framework{Name: "f"}, Instance: "i1"})
		offer := awaitEvent[protocol.Offers](framework).Offers[0]
		rest := func(what string) {
			t.Helper()
			<-time.After(3 * time.Second)
			synctest.Wait()
			leader := h.connect(*leads.Load())
			defer leader.Close()
			for _, w := range witnesses {
				if err := w.Differs(ctx, apiv1.NewOperatorServiceClient(leader)); err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				t.Fatalf("at rest: %s", what)
			}
		}
		task := api.Task{ID: "t1", Resources: api.Scalars(1, 100), Command: &api.Command{Argv: []string{"true"}}}
		framework.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}})
		rest("a task is launched")
		operator := apiv1.NewOperatorServiceClient(conn)
		if _, err := operator.MarkAgent(ctx, &apiv1.MarkAgentRequest{AgentId: "agent-1", Action: apiv1.AgentAction_DEACTIVATE}); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.SetRole(ctx, &apiv1.SetRoleRequest{Role: "eng", Weight: proto.Float64(3)}); err != nil {
			t.Fatal(err)
		}
		rest("an agent is deactivated and a role set")
		for _, w := range append(witnesses, only) {
			for _, want := range []string{"agent agent-1 admitted", "framework framework-1 subscribed", "task framework-1/t1 launched", "agent agent-1 deactivated", "role eng set"} {
				if !slices.Contains(w.Whats(), want) {
					t.Errorf("%s was not told %q, but %q", w.Name, want, w.Whats())
				}
			}
		}
		if slices.ContainsFunc(tasks.Whats(), func(what string) bool { return !strings.HasPrefix(what, "task ") }) || len(tasks.Whats()) == 0 {
			t.Errorf("who watches tasks is told %q", tasks.Whats())
		}

		agent.stop()
		framework.stop()
		_ = conn.Close()
		h.stop(first.ID())
		lead(h.leader())
		rest("another master leads")
		for _, w := range append(witnesses[:2:2], only) {
			if len(w.Missed()) == 0 {
				t.Errorf("%s was not told that it may have missed the last changes of the leader that is gone", w.Name)
			}
			if !slices.ContainsFunc(w.Whats(), func(what string) bool { return strings.HasPrefix(what, "election ") }) && w == only {
				t.Errorf("%s was not told of the election, but %q", w.Name, w.Whats())
			}
		}
		cancel()
		court.Wait()
	})
}
