package framework

import (
	"context"
	"errors"
	"slices"
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

// TestAnswersKeepTheirFilters: of a decline, of what a launch leaves, and the default one of an offer that
// has no answer.
func TestAnswersKeepTheirFilters(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			launch := api.Launch(offers[1], taskOf("t1"))
			launch.Filter.Refuse = time.Minute
			return []api.Answer{api.Decline(offers[0], time.Hour), launch}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1"), offerOf("offer-1-2"), offerOf("offer-1-3")}})
		if declined, _ := call[protocol.Decline](session); declined.Offers[0] != "offer-1-1" || declined.Filter.For() != time.Hour {
			t.Errorf("declined %+v", declined)
		}
		if accepted, _ := call[protocol.Accept](session); accepted.Offers[0] != "offer-1-2" || accepted.Filter.For() != time.Minute {
			t.Errorf("accepted %+v", accepted)
		}
		if declined, _ := call[protocol.Decline](session); declined.Offers[0] != "offer-1-3" || declined.Filter.For() != api.DefaultRefuse {
			t.Errorf("without an answer: %+v", declined)
		}
		r.end()
	})
}

func TestKeptOffers(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) (answers []api.Answer) {
			for _, offer := range offers {
				answers = append(answers, api.Keep(offer))
			}
			return answers
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		began := time.Now()
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1"), offerOf("offer-1-2"), offerOf("offer-1-3")}})
		session.quiet(10 * time.Second)
		if err := client.Answer(api.Launch(offerOf("offer-1-1"), taskOf("t1"))); err != nil {
			t.Error(err)
		}
		call[protocol.Accept](session)
		session.send(protocol.Rescind{Offers: []api.OfferID{"offer-1-2"}, Why: "agent lost"})
		if lost := next(t, s.lost); lost[0] != "offer-1-2" {
			t.Errorf("lost %v", lost)
		}
		call[protocol.Decline](session)
		if lost, after := next(t, s.lost), time.Since(began); lost[0] != "offer-1-3" || after < 28*time.Second || after >= 30*time.Second {
			t.Errorf("lost %v after %v", lost, after)
		}
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-4")}})
		session.quiet(time.Second)
		m.stop()
		if lost := next(t, s.lost); lost[0] != "offer-1-4" {
			t.Errorf("lost %v", lost)
		}
		r.end()
	})
}

func TestDemandAndSuppressionOutliveSessions(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, func(c *Config) { c.Roles = []api.Role{"a", "b"}; c.Suppressed = true })
		session := m.leadUntold(1)
		if got := session.subscribe.Suppressed; len(got) != 2 {
			t.Errorf("starts suppressed in %v", got)
		}
		client := next(t, s.clients)
		if err := client.Demand(api.Demand{}); !api.Is(err, api.Invalid) {
			t.Errorf("a demand without its role: %v", err)
		}
		want := api.Demand{Role: "b", Shapes: []api.Shape{{Resources: api.Scalars(1, 1), Count: 3}}}
		if err := client.Demand(want); err != nil {
			t.Error(err)
		}
		call[protocol.SetDemand](session)
		call[protocol.Revive](session)
		session.close(errors.New("restart"))
		session = m.leadUntold(2)
		if got := session.subscribe.Suppressed; len(got) != 2 {
			t.Errorf("starts suppressed in %v: offers come only when what is wanted is told", got)
		}
		if got, _ := call[protocol.SetDemand](session); got.Role != "b" || got.Shapes[0].Count != 3 {
			t.Errorf("demand %+v", got)
		}
		if got, _ := call[protocol.Revive](session); !slices.Equal(got.Roles, []api.Role{"b"}) {
			t.Errorf("revived in %v", got.Roles)
		}
		r.end()
	})
}

// A scheduler that states its demand when it is called Subscribed is offered nothing before the
// masters know that. Who states none is offered something right after that call.
func TestNoOffersBeforeTheDemandIsTold(t *testing.T) {
	for _, states := range []bool{true, false} {
		story(t, func(t *testing.T, n *network) {
			m := n.start("m1:1")
			s := newScript()
			s.greet = func(context.Context) error {
				if client := <-s.clients; states {
					return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(1, 1), Count: 3}}})
				}
				return nil
			}
			r := n.run(s, nil)
			session := m.leadUntold(1)
			if got := session.subscribe.Suppressed; !slices.Equal(got, []api.Role{api.DefaultRole}) {
				t.Errorf("starts suppressed in %v", got)
			}
			if states {
				call[protocol.SetDemand](session)
			}
			if got, _ := call[protocol.Revive](session); !slices.Equal(got.Roles, []api.Role{api.DefaultRole}) {
				t.Errorf("revived in %v", got.Roles)
			}
			r.end()
		})
	}
}

// What an answer launches counts down the demand that the master knows, so a demand
// stated in the callback is what is left after its answers, and must follow them.
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

// What a callback states before Offers is called, the masters hear before its answers, which count it down: also when
// both calls wait in one queue.
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
