package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// writes is the result of one run of durable writes.
type writes struct {
	p50, p99 time.Duration
	rate     float64
}

const (
	commitSpan       = time.Second // how long one run takes
	commitValueBytes = 128
	// commitRest is how long the framework saves for a run: masters let a connection write 512 KiB a second to stores, and
	// what it has not used later (R34). Without it the runs would measure that bound.
	commitRest = 8 * time.Second
)

// commit measures a write to a framework's store through the SDK, on three durable masters, in turn with a bare commit
// of the library in three processes with TLS on the same disk.
func commit(ctx context.Context, o options) (err error) {
	q, err := startQuorum(ctx, o, "--log-level", "warn")
	defer func() { err = errors.Join(err, q.stop()) }()
	if err != nil {
		return err
	}
	b, err := startBare(o.dir)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	w := &writer{flights: []int{1, 16, 256}, runs: o.runs}
	ctx, w.finish = context.WithCancel(ctx)
	defer w.finish()
	if w.bare, err = b.writer(ctx); err != nil {
		return err
	}
	err = framework.Run(ctx, framework.Config{
		Name: "commit", Masters: q.addresses(), TeardownAtEnd: true, Suppressed: true, Token: framework.NoToken, Dialer: q.proof.dialer(),
	}, w)
	return errors.Join(err, w.failure)
}

// writer is a framework that only writes to its store.
type writer struct {
	flights []int
	runs    int
	bare    func(string) error
	finish  context.CancelFunc
	failure error
	once    sync.Once
}

func (w *writer) Subscribed(ctx context.Context, client *framework.Client) error {
	w.once.Do(func() {
		go func() { // it ends with the last run, and then Run does
			defer w.finish()
			w.failure = w.measure(context.WithoutCancel(ctx), client.Store())
		}()
	})
	return nil
}

func (w *writer) Offers(context.Context, []api.Offer) []api.Answer { return nil }
func (w *writer) Update(context.Context, api.Status) error         { return nil }

func (w *writer) measure(ctx context.Context, store *framework.Store) error {
	value := make([]byte, commitValueBytes)
	ours := func(key string) error {
		_, err := store.Put(ctx, key, value, framework.AnyVersion)
		return err
	}
	for _, flight := range w.flights {
		var mine, theirs []writes
		for i := range w.runs + 1 {
			time.Sleep(commitRest)
			a, err := flights(flight, w.bare)
			if err != nil {
				return fmt.Errorf("bare: %w", err)
			}
			b, err := flights(flight, ours)
			if err != nil {
				return err
			}
			if i > 0 {
				theirs, mine = append(theirs, a), append(mine, b)
			}
		}
		showWrites(flight, middle(mine), middle(theirs))
	}
	return nil
}

func showWrites(flight int, ours, bare writes) {
	row(fmt.Sprintf("a durable write to a framework's store, %d in flight", flight),
		fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, %.0f/s", ms(ours.p50), ms(ours.p99), ours.rate),
		fmt.Sprintf("bare raft and raft-boltdb, by gRPC and TLS: p50 %.2f ms, p99 %.2f ms, %.0f/s; p50 %.2f times, rate %.2f times",
			ms(bare.p50), ms(bare.p99), bare.rate, float64(ours.p50)/float64(bare.p50), ours.rate/bare.rate))
	if flight == 1 {
		atMost("p50 of a write, in bare writes", float64(ours.p50)/float64(bare.p50), 1.5)
	} else {
		atLeast(fmt.Sprintf("writes for each bare write, %d in flight", flight), ours.rate/bare.rate, 0.95)
	}
	limited(1)
}

// middle returns the run with the median p50.
func middle(runs []writes) writes {
	slices.SortFunc(runs, func(a, b writes) int { return int(a.p50 - b.p50) })
	return runs[len(runs)/2]
}

// flights keeps n writes under way for a while.
func flights(n int, write func(key string) error) (writes, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed atomic.Pointer[error]
	began := time.Now()
	var workers sync.WaitGroup
	for i := range n {
		workers.Go(func() {
			var times []time.Duration
			for time.Since(began) < commitSpan && failed.Load() == nil {
				start := time.Now()
				if err := write(fmt.Sprint("key-", i)); err != nil {
					failed.Store(&err)
					break
				}
				times = append(times, time.Since(start))
			}
			mu.Lock()
			all = append(all, times...)
			mu.Unlock()
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return writes{}, *err
	}
	return writes{quantile(all, 0.5), quantile(all, 0.99), float64(len(all)) / time.Since(began).Seconds()}, nil
}
