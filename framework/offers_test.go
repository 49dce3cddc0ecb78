package framework

import (
	"context"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

func TestOffersThatTakesAMinute(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(ctx context.Context, offers []api.Offer) []api.Answer {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				t.Error("canceled")
			}
			return []api.Answer{api.Launch(offers[0], taskOf("t1"))}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		<-time.After(30 * time.Second)
		session.send(protocol.Rescind{Offers: []api.OfferID{"offer-1-1"}, Why: "expired"})
		if got := next(t, s.updates); got.State != api.TaskDropped || got.Reason != api.ReasonInvalidOffers {
			t.Errorf("update %+v", got)
		}
		session.quiet(time.Second) // the session is the same
		r.end()
	})
}

// The launches of an answer lower the demand that the master knows. A demand that is stated in the callback is what is
// left after its answers, and must follow them.
func TestDemandFollowsTheAnswers(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		var client *Client
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			if err := client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(1, 1), Count: 10}}}); err != nil {
				t.Error(err)
			}
			return []api.Answer{api.Launch(offers[0], taskOf("t1"))}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client = next(t, s.clients)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		call[protocol.Accept](session)
		if demand, _ := call[protocol.SetDemand](session); demand.Shapes[0].Count != 10 {
			t.Errorf("demand %+v", demand)
		}
		r.end()
	})
}

// A demand that a callback states before Offers is called reaches the masters before the answers of Offers, which lower
// it. This holds also if both callbacks wait in one queue.
func TestDemandOfAnUpdateComesBeforeTheAnswers(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		var client *Client
		queued := make(chan struct{})
		s.update = func(context.Context, api.Status) error {
			<-queued // until the offers are there as well
			return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: taskOf("t1").Resources, Count: 1}}})
		}
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			return []api.Answer{api.Launch(offers[0], taskOf("t1"))}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client = next(t, s.clients)
		session.send(protocol.Update{Status: api.Status{Task: "t0", Agent: "agent-1", State: api.TaskKilled, Number: 3}})
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		session.quiet(time.Second)
		close(queued)
		demand, first := call[protocol.SetDemand](session)
		call[protocol.Acknowledge](session)
		if _, second := call[protocol.Accept](session); demand.Shapes[0].Count != 1 || second < first {
			t.Errorf("demand %+v is call %d, the launch call %d", demand, first, second)
		}
		if left, stated := client.Wanted(""); len(left) != 0 || !stated {
			t.Errorf("left are %v, stated: %v", left, stated)
		}
		r.end()
	})
}
