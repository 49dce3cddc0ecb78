package framework

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func TestOneOfferEndToEnd(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			return []api.Answer{api.Launch(offers[0], taskOf("t1"))}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		if asked := session.asked(); session.subscribe.Framework.Name != "test" || session.subscribe.Instance == "" || len(asked) != 0 {
			t.Errorf("subscribed with %+v, %v", session.subscribe, asked)
		}
		if id := next(t, s.clients).FrameworkID(); id != "framework-1" {
			t.Errorf("framework ID %q", id)
		}
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1"), offerOf("offer-1-2")}})
		accept, _ := call[protocol.Accept](session)
		if accept.Offers[0] != "offer-1-1" || accept.Operations[0].Tasks[0].ID != "t1" {
			t.Errorf("accept %+v", accept)
		}
		decline, _ := call[protocol.Decline](session) // no answer
		if len(decline.Offers) != 1 || decline.Offers[0] != "offer-1-2" {
			t.Errorf("decline %+v", decline)
		}
		session.send(statusOf("t1", 1, api.TaskRunning), statusOf("t1", 2, api.TaskFinished))
		for number, want := range []api.TaskState{api.TaskRunning, api.TaskFinished} {
			if got := next(t, s.updates); got.State != want || got.Number != uint64(number+1) {
				t.Errorf("update %v number %d", got.State, got.Number)
			}
		}
		var acked []uint64
		for len(acked) < 2 {
			acks, _ := call[protocol.Acknowledge](session)
			for _, ack := range acks.Items {
				acked = append(acked, ack.Number)
			}
		}
		if acked[0] != 1 || acked[1] != 2 {
			t.Errorf("acknowledged %v", acked)
		}
		// The last acknowledgement was lost. It is repeated, and the scheduler is not called again.
		session.send(statusOf("t1", 2, api.TaskFinished))
		call[protocol.Acknowledge](session)
		if len(s.updates) > 0 {
			t.Errorf("told twice: %+v", <-s.updates)
		}
		r.end()
	})
}

func TestFailoverMidAccept(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m1 := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			return []api.Answer{api.Launch(offers[0], taskOf("t1"))}
		}
		r := n.run(s, func(c *Config) { c.Masters = []string{"m1:1", "m2:1"} })
		session := m1.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		_, accept := call[protocol.Accept](session)
		m1.stop()
		died := time.Now()
		m2 := n.start("m2:1")
		again := m2.lead(2)
		if took := time.Since(died); took > time.Second {
			t.Errorf("failover took %v", took)
		}
		if again.subscribe.Framework.ID != "framework-1" || again.subscribe.Cluster != "cluster" || again.subscribe.Term.Number != 1 {
			t.Errorf("subscribed again with %+v", again.subscribe)
		}
		want := protocol.UnsettledTask{Task: "t1", Agent: "agent-1", State: api.TaskStaging}
		if asked := again.asked(); len(asked) != 1 || asked[0] != want {
			t.Errorf("unsettled %+v, want %+v", asked, want)
		}
		again.quiet(10 * time.Second) // above all no second accept
		// Numbers begin anew in each session: the call that is refused now is not the accept of the former session.
		again.send(protocol.Refused{Number: accept, Err: api.E("framework.demand", api.Invalid, "", errors.New("no such role"))})
		again.quiet(time.Second)
		dropped := statusOf("t1", 0, api.TaskDropped)
		again.send(dropped)
		if got := next(t, s.updates); got.State != api.TaskDropped {
			t.Errorf("update %v", got.State)
		}
		r.end()
	})
}

func TestPanicEndsRunWithASentence(t *testing.T) {
	for name, misdeed := range map[string]func(*script){
		"Update panicked": func(s *script) { s.update = func(context.Context, api.Status) error { panic("no such key") } },
		"Offers panicked": func(s *script) { s.offers = func(context.Context, []api.Offer) []api.Answer { panic("no such key") } },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *network) {
				m := n.start("m1:1")
				s := newScript()
				misdeed(s)
				r := n.run(s, nil)
				session := m.lead(1)
				session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}}, statusOf("t1", 1, api.TaskRunning))
				err := r.wait()
				if !api.Is(err, api.Internal) || !strings.Contains(err.Error(), name+": no such key") {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

func TestFenced(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		r := n.run(newScript(), nil)
		session := m.lead(1)
		session.close(wire.Status(api.E("framework.session", api.Fenced, "framework-1", errors.New("instance ABC subscribed"))))
		err := r.wait()
		if !errors.Is(err, ErrFenced) || !api.Is(err, api.Fenced) || !strings.Contains(err.Error(), "instance ABC") {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestSilenceEndsTheSession(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		canceled := make(chan time.Time, 1)
		s.offers = func(ctx context.Context, offers []api.Offer) []api.Answer {
			<-ctx.Done()
			canceled <- time.Now()
			return []api.Answer{api.Launch(offers[0], taskOf("t1"))}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.stopBeat()
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		last := time.Now()
		if silent := next(t, canceled).Sub(last); silent < 3*time.Second || silent > 3400*time.Millisecond {
			t.Errorf("callbacks were stopped after %v, want two thirds of 5 s", silent)
		}
		again := m.lead(2)
		if got := next(t, s.updates); got.State != api.TaskDropped || got.Reason != api.ReasonInvalidOffers {
			t.Errorf("update %+v", got)
		}
		if asked := again.asked(); len(asked) != 0 {
			t.Errorf("unsettled %+v of an accept that was never sent", asked)
		}
		r.end()
	})
}

func TestSubscribedFails(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		wrong := errors.New("my store is empty")
		s.greet = func(context.Context) error { return wrong }
		r := n.run(s, nil)
		m.lead(1)
		if err := r.wait(); !errors.Is(err, wrong) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestReconcileBetweenSessions: what is asked while there is no session is sent in the next one.
func TestReconcileBetweenSessions(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		m.lead(1)
		client := next(t, s.clients)
		m.stop()
		<-time.After(10 * time.Second)
		if err := client.Reconcile("from-a-file"); err != nil {
			t.Error(err)
		}
		session := n.start("m1:1").lead(2)
		if asked := session.asked(); len(asked) != 1 || asked[0].Task != "from-a-file" {
			t.Errorf("asks about %+v", asked)
		}
		answer := statusOf("from-a-file", 0, api.TaskUnknown)
		answer.Status.Reason = api.ReasonReconciliation
		session.send(answer)
		if got := next(t, s.updates); got.Task != "from-a-file" || got.State != api.TaskUnknown {
			t.Errorf("update %+v", got)
		}
		r.end()
	})
}

// TestReconcilesByItself: about once every interval the SDK asks the leader about the tasks whose end it does not know.
// It never does if the config says so.
func TestReconcilesByItself(t *testing.T) {
	for _, c := range []struct {
		interval, least, most time.Duration
	}{{0, 7 * time.Minute, 23 * time.Minute}, {time.Minute, 29 * time.Second, 91 * time.Second}, {-1, 0, 0}} {
		t.Run(c.interval.String(), func(t *testing.T) {
			story(t, func(t *testing.T, n *network) {
				m := n.start("m1:1")
				s := newScript()
				r := n.run(s, func(config *Config) { config.ReconcileInterval = c.interval })
				session := m.lead(1)
				session.send(statusOf("t1", 1, api.TaskRunning))
				call[protocol.Acknowledge](session)
				began := time.Now()
				if c.most == 0 {
					session.quiet(25 * time.Minute) // by default it asks within 22.5
					r.end()
					return
				}
				for range 3 {
					asked, _ := call[protocol.Reconcile](session)
					if took := time.Since(began); took < c.least || took > c.most {
						t.Errorf("asked after %v", took)
					}
					if len(asked.Tasks) != 1 || asked.Tasks[0].Task != "t1" {
						t.Errorf("asked for %+v", asked.Tasks)
					}
					began = time.Now()
				}
				r.end()
			})
		})
	}
}
