package framework

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// reserver is a script that wants to hear of its operations.
type reserver struct {
	*script
	told    chan api.OperationID
	errs    chan error
	refused chan error
}

func newReserver(operations ...api.Operation) *reserver {
	r := &reserver{newScript(), make(chan api.OperationID, 100), make(chan error, 100), make(chan error, 100)}
	r.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
		return []api.Answer{{Offers: []api.OfferID{offers[0].ID}, Operations: operations}}
	}
	return r
}

func (r *reserver) OperationDone(_ context.Context, _ api.AgentID, operation api.OperationID, err error) {
	r.told <- operation
	r.errs <- err
}

func (r *reserver) Refused(_ context.Context, _ string, err error) { r.refused <- err }

func (r *reserver) expect(t *testing.T, id api.OperationID, kind api.Kind) {
	t.Helper()
	if got, err := next(t, r.told), next(t, r.errs); got != id || api.KindOf(err) != kind && (kind != 0 || err != nil) {
		t.Errorf("told %v: %v, want %v %v", got, err, id, kind)
	}
}

func reserveOf(id api.OperationID) api.Operation {
	return api.Operation{ID: id, Kind: api.OpReserve, Resources: api.Scalars(1, 1)}
}

// TestOperationsAreAskedForAgain: R26. What a session has not told is asked of the next
// one, once; launches are not, nor what was told.
func TestOperationsAreAskedForAgain(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m1 := n.start("m1:1")
		launch := api.Operation{ID: "launch", Kind: api.OpLaunch, Tasks: []api.Task{taskOf("t1")}}
		s := newReserver(reserveOf("r1"), reserveOf("r2"), reserveOf(""), launch)
		r := n.run(s, func(c *Config) { c.Masters = []string{"m1:1", "m2:1"} })
		session := m1.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		call[protocol.Accept](session)
		session.send(protocol.OperationResult{ID: "r1", Agent: "agent-1"})
		s.expect(t, "r1", 0)
		client := next(t, s.clients)
		m1.stop()
		m2 := n.start("m2:1")
		again := m2.lead(2)
		asked, _ := call[protocol.ReconcileOperations](again)
		if !slices.Equal(asked.Operations, []api.OperationID{"r2"}) {
			t.Errorf("asked for %v", asked.Operations)
		}
		again.send(protocol.OperationResult{ID: "r2", Err: api.E("framework.operation", api.NotFound, "r2", errors.New("no such operation"))})
		s.expect(t, "r2", api.NotFound)
		// The user's own questions outlive a session too.
		if err := client.ReconcileOperations("old", ""); api.KindOf(err) != api.Invalid {
			t.Errorf("an ID that can't be: %v", err)
		}
		if err := client.ReconcileOperations("old"); err != nil {
			t.Error(err)
		}
		if asked, _ := call[protocol.ReconcileOperations](again); !slices.Equal(asked.Operations, []api.OperationID{"old"}) {
			t.Errorf("asked for %v", asked.Operations)
		}
		m2.stop()
		synctest.Wait() // the session has ended: what is asked now waits for the next
		if err := client.ReconcileOperations(); err != nil {
			t.Error(err)
		}
		last := n.start("m1:1").lead(3)
		all, _ := call[protocol.ReconcileOperations](last)
		asked, _ = call[protocol.ReconcileOperations](last)
		if len(all.Operations) != 0 || !slices.Equal(asked.Operations, []api.OperationID{"old"}) {
			t.Errorf("asked for %v, then for %v", all.Operations, asked.Operations)
		}
		last.send(protocol.OperationResult{ID: "old", Agent: "agent-1"})
		s.expect(t, "old", 0)
		r.end()
	})
}
