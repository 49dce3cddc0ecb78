package framework

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// updating calls UpdateFramework in the background.
func updating(ctx context.Context, client *Client, change func(*api.Framework)) <-chan error {
	done := make(chan error, 1)
	go func() { done <- client.UpdateFramework(ctx, change) }()
	return done
}

func into(roles ...api.Role) func(*api.Framework) {
	return func(f *api.Framework) { f.Roles = roles }
}

// TestUpdateFrameworkHoldsFromThenOn: the update holds in this session, and the later sessions subscribe with it.
func TestUpdateFrameworkHoldsFromThenOn(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, func(c *Config) { c.Roles = []api.Role{"web", "batch"} })
		session := m.lead(1)
		client := next(t, s.clients)
		if err := errors.Join(client.Suppress("web"), client.Demand(api.Demand{Role: "batch"})); err != nil {
			t.Fatal(err)
		}
		call[protocol.Suppress](session)
		call[protocol.SetDemand](session)
		done := updating(t.Context(), client, func(f *api.Framework) {
			f.Roles = []api.Role{"night"}
			f.FailoverTimeout = time.Hour
			f.Endpoints = map[string]string{"http": "10.0.0.1:80"}
		})
		update, number := call[protocol.UpdateFramework](session)
		if f := update.Framework; f.ID != "framework-1" || f.Name != "test" || f.FailoverTimeout != time.Hour || f.Endpoints["http"] != "10.0.0.1:80" {
			t.Errorf("sent %+v", f)
		}
		if err := client.Suppress("night"); !api.Is(err, api.Invalid) {
			t.Errorf("a role before its time: %v", err)
		}
		session.send(protocol.FrameworkUpdated{Number: number})
		if err := next(t, done); err != nil {
			t.Fatal(err)
		}
		if err := client.Suppress("web"); !api.Is(err, api.Invalid) {
			t.Errorf("a role that was left: %v", err)
		}
		if err := client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(1, 1), Count: 1}}}); err != nil {
			t.Error(err) // the only role is night
		}
		call[protocol.SetDemand](session)
		session.close(api.E("framework.session", api.Unavailable, "m1", nil))
		again := m.lead(2)
		if f := again.subscribe.Framework; !slices.Equal(f.Roles, []api.Role{"night"}) || f.FailoverTimeout != time.Hour || f.Endpoints["http"] == "" {
			t.Errorf("subscribed again with %+v", f)
		}
		if !slices.Equal(again.subscribe.Suppressed, []api.Role{"night"}) { // until its demand is told
			t.Errorf("suppressed %v", again.subscribe.Suppressed)
		}
		demand, _ := call[protocol.SetDemand](again)
		if demand.Role != "night" {
			t.Errorf("demand in %q", demand.Role)
		}
		r.end()
	})
}

// TestUpdateFrameworkRefused: the error says why, and nothing has changed.
func TestUpdateFrameworkRefused(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		done := updating(t.Context(), client, func(f *api.Framework) { f.Constraint = "rack ==" })
		_, number := call[protocol.UpdateFramework](session)
		session.send(protocol.Refused{Number: number, Err: api.E("framework.update", api.Invalid, "framework-1", errors.New("syntax error"))})
		if err := next(t, done); !api.Is(err, api.Invalid) {
			t.Errorf("refused with %v", err)
		}
		for what, change := range map[string]func(*api.Framework){
			"another name":  func(f *api.Framework) { f.Name = "other" },
			"standby":       func(f *api.Framework) { f.Standby = true },
			"a role twice":  into("a", "a"),
			"negative time": func(f *api.Framework) { f.FailoverTimeout = -1 },
		} {
			if err := client.UpdateFramework(t.Context(), change); !api.Is(err, api.Invalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		session.close(api.E("framework.session", api.Unavailable, "m1", nil))
		if again := m.lead(2); again.subscribe.Framework.Constraint != "" {
			t.Errorf("subscribed again with constraint %q", again.subscribe.Framework.Constraint)
		}
		r.end()
	})
}

// TestUpdateFrameworkOverFailover: an update whose answer was lost with the session is sent again in the next one. Two
// updates do not undo each other.
func TestUpdateFrameworkOverFailover(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		first := updating(t.Context(), client, into("web"))
		call[protocol.UpdateFramework](session)
		second := updating(t.Context(), client, func(f *api.Framework) { f.FailoverTimeout = time.Hour })
		session.quiet(time.Second) // one at a time
		session.close(api.E("framework.session", api.Unavailable, "m1", nil))
		again := m.lead(2)
		_, number := call[protocol.UpdateFramework](again)
		again.send(protocol.FrameworkUpdated{Number: number})
		if err := next(t, first); err != nil {
			t.Fatal(err)
		}
		update, number := call[protocol.UpdateFramework](again)
		if f := update.Framework; f.FailoverTimeout != time.Hour || f.Roles[0] != "web" {
			t.Errorf("the second sent %+v", f)
		}
		again.send(protocol.FrameworkUpdated{Number: number})
		if err := next(t, second); err != nil {
			t.Fatal(err)
		}
		r.end()
	})
}

// TestUpdateFrameworkGivesUp: the call returns when its context ends, and when Run ends.
func TestUpdateFrameworkGivesUp(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := client.UpdateFramework(ctx, into("web"))
		if !api.Is(err, api.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an answer: %v", err)
		}
		_, number := call[protocol.UpdateFramework](session)
		session.send(protocol.FrameworkUpdated{Number: number}) // it comes into effect all the same
		done := updating(t.Context(), client, into("night"))
		if update, _ := call[protocol.UpdateFramework](session); update.Framework.Roles[0] != "night" {
			t.Errorf("sent %+v", update.Framework)
		}
		r.end()
		if err := next(t, done); !api.Is(err, api.Unavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestUpdateFrameworkThatNobodyTakes: Run ends before its loop has taken the update.
func TestUpdateFrameworkThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := Config{Name: "test"}.complete()
		if err != nil {
			t.Fatal(err)
		}
		l := newLoop(config, newScript()) // it does not run
		done := updating(t.Context(), l.client, into("web"))
		synctest.Wait() // until it waits for the answer
		close(l.client.ended)
		if err := next(t, done); !api.Is(err, api.Unavailable) || !errors.Is(err, errEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}
