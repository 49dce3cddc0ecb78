package master_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// TestAgentsAreWatched: a watcher of agents gets them as they are, and then their changes: a task, a mark, the state,
// the end. A follower names the leader, and so does a leader that no longer leads.
func TestAgentsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		first := h.leader()
		conn := h.connect(first.GRPCAddr())
		defer conn.Close()
		agent := newNode(t, conn, "n1")
		defer agent.stop()
		operator := apiv1.NewOperatorServiceClient(conn)
		watch, err := operator.WatchAgents(t.Context(), &apiv1.WatchAgentsRequest{AgentIds: []string{"agent-1", "agent-9"}})
		if err != nil {
			t.Fatal(err)
		}
		// until reads on until the agent is as it should be.
		until := func(what string, is func(*apiv1.AgentView) bool) {
			t.Helper()
			for {
				news, err := watch.Recv()
				if err != nil {
					t.Fatalf("waiting until %s: %v", what, err)
				}
				if slices.ContainsFunc(news.Items, is) {
					return
				}
			}
		}
		begin, err := watch.Recv()
		if err != nil || len(begin.Items) != 1 || begin.Items[0].Id != "agent-1" || !slices.Equal(begin.RemovedIds, []string{"agent-9"}) || !begin.Complete {
			t.Fatalf("the watch begins with %v, %v", begin, err)
		}

		framework := newScheduler(t, conn, protocol.Subscribe{Framework: api.Framework{Name: "f"}, Instance: "i1"})
		defer framework.stop()
		offer := awaitEvent[protocol.Offers](framework).Offers[0]
		task := api.Task{ID: "t1", Resources: api.Scalars(1, 100), Command: &api.Command{Argv: []string{"true"}}}
		framework.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}})
		until("it has a task", func(a *apiv1.AgentView) bool { return a.Tasks == 1 })
		mark := func(action apiv1.AgentAction) {
			t.Helper()
			if _, err := operator.MarkAgent(t.Context(), &apiv1.MarkAgentRequest{AgentId: "agent-1", Action: action, Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		mark(apiv1.AgentAction_DEACTIVATE)
		until("it is deactivated", func(a *apiv1.AgentView) bool { return slices.Contains(a.Marks, "deactivated") })
		mark(apiv1.AgentAction_REMOVE)
		for removed := false; !removed; {
			news, err := watch.Recv()
			if err != nil {
				t.Fatalf("waiting for the end of an agent that is removed: %v", err)
			}
			removed = slices.Contains(news.RemovedIds, "agent-1")
		}

		for _, r := range h.masters {
			if r == first {
				continue
			}
			other := h.connect(r.GRPCAddr())
			defer other.Close()
			refused, err := apiv1.NewOperatorServiceClient(other).WatchAgents(t.Context(), &apiv1.WatchAgentsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = refused.Recv()
			if e := wire.Error(err); e == nil || e.Kind != api.NotLeader || wire.LeaderOf(e) != first.GRPCAddr() {
				t.Errorf("a follower answers %v, the leader is at %s", err, first.GRPCAddr())
			}
		}
		h.stop(first.ID())
		if news, err := watch.Recv(); err == nil {
			t.Errorf("the watch of a leader that has ended goes on with %v", news)
		}
	})
}
