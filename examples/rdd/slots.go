package rdd

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// question is what a slot of an executor asks its driver: here is how my last task has ended, what is the next one?
type question struct {
	Place   plan.Place
	Address string // where it serves what it holds
	Slot    int
	Report  *report
}

func (c *Context) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/next", c.serveNext)
	mux.HandleFunc("/broadcast", c.serveBroadcast)
	return mux
}

// serveNext answers a question when there is a task for it.
func (c *Context) serveNext(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := gob.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o, err := c.await(r.Context(), q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusGone)
		return
	}
	_ = gob.NewEncoder(w).Encode(o) // an order that gets lost is noticed when the slot asks again
}

// driverPatience is how often a slot asks a driver that can't be reached, a second apart, before its executor ends.
const driverPatience = 20

// work keeps the slots of an executor busy until the driver does not want it any more.
func (w *worker) work(ctx context.Context, s setup, name plan.Place) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var slots sync.WaitGroup
	for slot := range s.Slots {
		slots.Go(func() { end(w.slot(ctx, s, question{Place: name, Address: w.address, Slot: slot})) })
	}
	slots.Wait()
	return context.Cause(ctx)
}

// slot asks for tasks and runs them, one after the other.
func (w *worker) slot(ctx context.Context, s setup, q question) error {
	failures := 0
	for {
		o, err := w.ask(ctx, s.Driver, q)
		var refused *refusal
		switch {
		case errors.As(err, &refused) && refused.status == http.StatusGone:
			return errors.New("the driver does not want this executor any more")
		case err == nil:
			failures = 0
			for _, node := range o.Drops {
				w.cache.drop(node)
			}
			told := w.perform(ctx, *o)
			q.Report = &told
		default:
			if failures++; failures > driverPatience {
				return err
			}
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
	}
}

func (w *worker) ask(ctx context.Context, driver string, q question) (*order, error) {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(q); err != nil {
		return nil, err
	}
	answer, err := w.client.post(ctx, "http://"+driver+"/next", &body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	var o order
	return &o, gob.NewDecoder(answer).Decode(&o)
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
