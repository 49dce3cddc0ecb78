package framework

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestDo: the function runs between two callbacks, so it can use their variables without a lock; the race detector
// would notice otherwise. Do returns when the function has run.
func TestDo(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		shown := 0
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			shown += len(offers)
			<-time.After(time.Second)
			shown += len(offers)
			return nil
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		synctest.Wait() // the callback is at work
		saw := 0
		if err := client.Do(t.Context(), func() { saw = shown }); err != nil || saw != 2 {
			t.Errorf("it saw %d, in the middle of a callback (%v)", saw, err)
		}
		r.end()
	})
}

// TestDoCalledOff: if its context ends before the function has begun, the function never runs. If it has begun, Do
// waits for it.
func TestDoCalledOff(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(context.Context, []api.Offer) []api.Answer {
			<-time.After(time.Minute)
			return nil
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := client.Do(ctx, func() { t.Error("it runs") })
		if !api.Is(err, api.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("called off: %v", err)
		}
		<-time.After(2 * time.Minute) // it does not run later either

		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		done := false
		if err := client.Do(ctx, func() { <-time.After(time.Minute); done = true }); err != nil || !done {
			t.Errorf("it had begun, and Do did not wait for its end (%v)", err)
		}
		r.end()
	})
}

// TestDoWithoutSession: Do also works before the first session and between two sessions.
func TestDoWithoutSession(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		m.lead(1)
		client := next(t, s.clients)
		m.stop()
		<-time.After(time.Minute)
		ran := false
		if err := client.Do(t.Context(), func() { ran = true }); err != nil || !ran {
			t.Errorf("ran: %v (%v)", ran, err)
		}
		r.end()
	})
}

// TestDoFromACallback: Do returns an error at once, instead of waiting for itself.
func TestDoFromACallback(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		refused := make(chan error, 1)
		var client *Client
		s.offers = func(ctx context.Context, _ []api.Offer) []api.Answer {
			refused <- client.Do(ctx, func() { t.Error("it runs") })
			return nil
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client = next(t, s.clients)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		if err := next(t, refused); !api.Is(err, api.Invalid) {
			t.Errorf("from a callback: %v", err)
		}
		r.end()
	})
}

// TestDoAtTheEnd: a call that waits when Run ends gets an error, and after the end nothing runs.
func TestDoAtTheEnd(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		busy := make(chan struct{})
		s.offers = func(ctx context.Context, _ []api.Offer) []api.Answer {
			close(busy)
			<-ctx.Done()
			return nil
		}
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		<-busy
		refused := make(chan error, 1)
		ended, ran := false, false
		go func() {
			refused <- client.Do(context.Background(), func() { ran = true; ended = r.ended() })
		}()
		client.After(time.Hour, func() { t.Error("After runs when Run has ended") })
		synctest.Wait()
		r.end()
		if err := next(t, refused); (err == nil) != ran || err != nil && !api.Is(err, api.Unavailable) || ended {
			t.Errorf("at the end: ran %v, after Run has returned %v, error %v", ran, ended, err)
		}
		if err := client.Do(context.Background(), func() { t.Error("it runs") }); !api.Is(err, api.Unavailable) {
			t.Errorf("after the end: %v", err)
		}
		client.After(0, func() { t.Error("After runs when Run has ended") })()
		<-time.After(2 * time.Hour)
	})
}

// ended reports whether Run has returned.
func (r *running) ended() bool { return len(r.done) > 0 }

// TestDoThatPanics: a panic of the function ends Run like that of a callback, and the caller gets an error.
func TestDoThatPanics(t *testing.T) {
	for name, end := range map[string]func(){"panics": func() { panic("wrong") }, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *network) {
				m := n.start("m1:1")
				s := newScript()
				r := n.run(s, nil)
				m.lead(1)
				client := next(t, s.clients)
				if err := client.Do(context.Background(), end); !api.Is(err, api.Internal) {
					t.Errorf("Do returned %v", err)
				}
				if err := r.wait(); !api.Is(err, api.Internal) {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

// TestAfter: functions run when they are due, in order, also between sessions. A function that was called off does not
// run.
func TestAfter(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		began := time.Now()
		ran := make(chan string, 16)
		note := func(name string) func() { return func() { ran <- name + " after " + time.Since(began).String() } }
		client.After(3*time.Second, note("third"))
		client.After(time.Second, func() {
			note("first")()
			client.After(time.Second, note("second"))
			again := client.After(time.Second, note("called off by its neighbour"))
			client.After(time.Second, note("and a half"))
			again()
		})
		stop := client.After(time.Second, note("called off"))
		late := client.After(5*time.Second, note("last"))
		stop()
		stop()
		<-time.After(2500 * time.Millisecond)
		session.close(errors.New("restart"))
		m.stop()
		<-time.After(10 * time.Second)
		late() // it has run
		close(ran)
		var got []string
		for one := range ran {
			got = append(got, one)
		}
		want := []string{"first after 1s", "second after 2s", "and a half after 2s", "third after 3s", "last after 5s"}
		if len(got) != len(want) {
			t.Fatalf("ran %q", got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("ran %q, want %q", got[i], want[i])
			}
		}
		r.end()
	})
}

// TestTheNextCallbackSeesWhatTheLastOneHasDone: what a callback asks for comes to the loop behind the result of the
// callback before it. So the ID of a task that was DROPPED can be launched again from there (R9).
func TestTheNextCallbackSeesWhatTheLastOneHasDone(t *testing.T) {
	for range 20 { // which of two channels a goroutine reads first is left to chance
		story(t, func(t *testing.T, n *network) {
			m := n.start("m1:1")
			s := newScript()
			s.offers = func(_ context.Context, offers []api.Offer) []api.Answer { return []api.Answer{api.Keep(offers[0])} }
			again := make(chan error, 1)
			var client *Client
			s.update = func(_ context.Context, status api.Status) error {
				if status.Task == "last" {
					again <- client.Answer(api.Launch(offerOf("offer-1-1"), taskOf("again")))
				}
				return nil
			}
			r := n.run(s, nil)
			session := m.lead(1)
			client = next(t, s.clients)
			session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
			synctest.Wait()
			dropped := statusOf("again", 1, api.TaskDropped)
			session.send(dropped, statusOf("last", 1, api.TaskRunning))
			if err := next(t, again); err != nil {
				t.Error(err)
			}
			call[protocol.Acknowledge](session)
			if accept, _ := call[protocol.Accept](session); len(accept.Operations) != 1 {
				t.Errorf("accepted %+v", accept)
			}
			r.end()
		})
	}
}
