package rdd

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// worker is an executor: it runs one task at a time, caches blocks, keeps the outputs of map tasks, and serves both to
// others.
type worker struct {
	dir     string
	name    plan.Place
	address string
	driver  string // address of the driver
	client  *client
	cache   *cache

	mu      sync.Mutex
	outputs map[wanted]output // by shuffle and map partition
}

// serveDriver is the life of an executor: it serves what it holds, and works until the driver does not want it any
// more.
func serveDriver(ctx context.Context, network Network, s setup, name plan.Place, dir string) error {
	listener, err := network.Listen(s.Host)
	if err != nil {
		return err
	}
	w := &worker{
		dir: dir, name: name, address: listener.Addr().String(), driver: s.Driver, client: newClient(network, s.Token),
		cache: newCache(dir, s.CacheBytes), outputs: map[wanted]output{},
	}
	stop := serve(ctx, listener, guarded(s.Token, w.routes()))
	defer w.client.http.CloseIdleConnections()
	defer stop()
	ctx, end := context.WithCancel(ctx)
	var beating sync.WaitGroup
	defer beating.Wait()
	defer end()
	beating.Go(func() { w.beat(ctx) })
	return w.work(ctx)
}

// beatEvery is how often an executor shows its driver that it lives.
const beatEvery = 2 * time.Second

func (w *worker) beat(ctx context.Context) {
	for pause(ctx, beatEvery) == nil {
		if body, err := w.client.post(ctx, w.driver, "/alive", w.name); err == nil {
			_ = body.Close() // there is nothing in it
		}
	}
}

// driverPatience is how many times, a second apart, a driver that can't be reached is asked before its executor ends.
const driverPatience = 20

// work asks for tasks and runs them, one after the other, until the driver does not want this executor any more.
func (w *worker) work(ctx context.Context) error {
	q := question{Place: w.name, Address: w.address}
	for {
		o, err := w.ask(ctx, q)
		if err != nil {
			return err
		}
		told := w.perform(ctx, *o)
		q.Report = &told
	}
}

// ask asks the driver for a task; while the driver can't be reached it repeats that for a while.
func (w *worker) ask(ctx context.Context, q question) (*order, error) {
	for failures := 1; ; failures++ {
		o := new(order)
		answer, err := w.client.post(ctx, w.driver, "/next", q)
		if err == nil {
			err = gob.NewDecoder(answer).Decode(o)
			_ = answer.Close() // it was read
		}
		if err == nil || errors.Is(err, errGone) || failures > driverPatience {
			return o, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func (w *worker) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/piece", func(to http.ResponseWriter, r *http.Request) {
		var of wanted
		if err := gob.NewDecoder(r.Body).Decode(&of); err != nil {
			http.Error(to, err.Error(), http.StatusBadRequest)
			return
		}
		defer func() {
			if recover() != nil {
				panic(http.ErrAbortHandler) // so that the reader does not take a part for the whole
			}
		}()
		if !w.servePiece(to, of) {
			http.Error(to, "this executor has no such piece", http.StatusNotFound)
		}
	})
	return mux
}

// servePiece writes what another executor wants; false: it is not here.
func (w *worker) servePiece(to io.Writer, of wanted) (found bool) {
	if of.Shuffle == 0 {
		seq, closing, found := w.cache.get(of.Block)
		if found {
			defer closing()
			check(kindNamed(of.Kind).encode(to, seq))
		}
		return found
	}
	out, found := w.output(of)
	if !found {
		return false
	}
	file, section, err := out.open(of.To)
	check(err)
	defer file.Close()
	_, err = io.Copy(to, section)
	check(err)
	return true
}

func (w *worker) output(of wanted) (output, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, found := w.outputs[wanted{Shuffle: of.Shuffle, From: of.From}]
	return out, found
}

// perform runs a task to its end.
func (w *worker) perform(ctx context.Context, o order) report {
	run := &run{ctx: ctx, worker: w, order: o}
	value, err := run.performTask()
	told := report{ID: o.ID, Value: value, Kept: run.kept}
	if err != nil {
		told.Error = err.Error()
		var missing *missing
		if errors.As(err, &missing) {
			told.Missing = missing.address
		}
	}
	return told
}
