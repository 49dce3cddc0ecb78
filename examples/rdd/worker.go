package rdd

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// worker is an executor: it runs tasks, caches blocks, keeps the outputs of map tasks, and serves both to others.
type worker struct {
	dir     string
	address string
	driver  string // address of the driver
	client  *client
	cache   *cache
	memory  int64 // bytes that one task may use for what it shuffles

	mu      sync.Mutex
	outputs map[outputKey]output
	large   []large // parameters, the oldest first
}

type outputKey struct {
	shuffle   plan.ShuffleID
	partition int
}

// setup is what the driver tells an executor that starts.
type setup struct {
	Driver string // address of the driver
	Token  string
	Host   string // where the executor listens
	Mode   Mode
	Slots  int
	// CacheBytes and ShuffleBytes are parts of MemoryBytes. They bound what is held in memory; the rest is spilled to
	// the sandbox.
	MemoryBytes, CacheBytes, ShuffleBytes int64
}

// newWorker starts to serve what the executor will hold, until ctx ends.
func newWorker(ctx context.Context, network Network, s setup, dir string) (*worker, func(), error) {
	listener, err := network.Listen(s.Host)
	if err != nil {
		return nil, nil, err
	}
	w := &worker{
		dir: dir, address: listener.Addr().String(), driver: s.Driver, client: newClient(network, s.Token),
		cache: newCache(dir, s.CacheBytes), memory: s.ShuffleBytes / int64(s.Slots), outputs: map[outputKey]output{},
	}
	return w, serve(ctx, listener, guarded(s.Token, w.routes())), nil
}

// driverPatience is how many times, a second apart, a driver that can't be reached is asked before its executor ends.
const driverPatience = 20

// errUnwanted is what the driver answers to an executor, or about a task, that it has given up.
var errUnwanted = errors.New("the driver does not want this executor any more")

// work keeps the slots of an executor busy until the driver does not want it any more.
func (w *worker) work(ctx context.Context, s setup, name plan.Place) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var slots sync.WaitGroup
	for slot := range s.Slots {
		slots.Go(func() { end(w.slot(ctx, question{Place: name, Address: w.address, Slot: slot})) })
	}
	slots.Wait()
	return context.Cause(ctx)
}

// slot asks for tasks and runs them, one after the other.
func (w *worker) slot(ctx context.Context, q question) error {
	for {
		o, err := w.ask(ctx, "/next", q)
		if err != nil {
			return err
		}
		told := w.perform(ctx, *o)
		q.Report = &told
	}
}

// ask asks the driver; while the driver can't be reached it repeats that for a while.
func (w *worker) ask(ctx context.Context, path string, q question) (*order, error) {
	for failures := 1; ; failures++ {
		o, err := w.askOnce(ctx, path, q)
		var refused *refusal
		switch {
		case err == nil:
			return o, nil
		case errors.As(err, &refused) && refused.status == http.StatusGone:
			return nil, errUnwanted
		case failures > driverPatience:
			return nil, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func (w *worker) askOnce(ctx context.Context, path string, q question) (*order, error) {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(q); err != nil {
		return nil, err
	}
	answer, err := w.client.post(ctx, "http://"+w.driver+path, &body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	var o order
	return &o, gob.NewDecoder(answer).Decode(&o)
}

// pause waits for d; it ends early with an error if ctx ends.
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

// headersMax is how long a connection may take to send its request's headers.
const headersMax = 10 * time.Second

// serve answers requests until the returned function is called.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: headersMax}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it returns when it is closed or its listener fails; clients notice that
	}()
	return func() {
		_ = server.Close() // there is nothing else to do about an error
		<-ended
	}
}

func (w *worker) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/block", w.serveBlock)
	mux.HandleFunc("/output", w.serveOutput)
	return mux
}

func (w *worker) serveBlock(to http.ResponseWriter, r *http.Request) {
	n, err := numbers(r, "node", "partition")
	if err != nil {
		http.Error(to, err.Error(), http.StatusBadRequest)
		return
	}
	write, found := w.cache.open(r.Context(), plan.Block{Node: plan.NodeID(n[0]), Partition: n[1]})
	if !found {
		http.Error(to, "no such block", http.StatusNotFound)
		return
	}
	if err := write(to); err != nil {
		panic(http.ErrAbortHandler) // so that the reader does not take a part for the whole
	}
}

func (w *worker) serveOutput(to http.ResponseWriter, r *http.Request) {
	n, err := numbers(r, "shuffle", "from", "to")
	if err != nil {
		http.Error(to, err.Error(), http.StatusBadRequest)
		return
	}
	out, found := w.output(plan.ShuffleID(n[0]), n[1])
	if !found || n[2] < 0 || n[2] >= len(out.ends) {
		http.Error(to, "no such output", http.StatusNotFound)
		return
	}
	file, section, err := out.open(n[2])
	if err != nil {
		http.Error(to, err.Error(), http.StatusNotFound)
		return
	}
	defer file.Close()
	to.Header().Set("Content-Length", fmt.Sprint(section.Size()))
	if _, err := io.Copy(to, section); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (w *worker) output(id plan.ShuffleID, partition int) (output, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, found := w.outputs[outputKey{id, partition}]
	return out, found
}

// perform runs a task to its end.
func (w *worker) perform(ctx context.Context, o order) report {
	for _, node := range o.Drops {
		w.cache.drop(node)
	}
	run := &run{ctx: ctx, worker: w, order: o}
	begun := time.Now()
	value, err := run.perform()
	told := report{ID: o.ID, Value: value, Kept: run.kept, Counts: run.counts, Cached: w.cache.holds(), Took: time.Since(begun)}
	if err != nil {
		told.Error = err.Error()
		var missing *missing
		if errors.As(err, &missing) {
			told.Missing = missing.address
		}
	}
	return told
}

// missing is the error of something that can't be read from another executor.
type missing struct {
	address string
	err     error
}

func (m *missing) Error() string { return fmt.Sprintf("reading from %s: %v", m.address, m.err) }
func (m *missing) Unwrap() error { return m.err }

// writeOutput is the last step of a map task.
func (r *run) writeOutput(seq any) {
	w, s := r.worker, r.order.Shuffle
	writer := &outputWriter{
		path:       filepath.Join(w.dir, fmt.Sprintf("output-%d-%d", s.ID, r.order.Block.Partition)),
		partitions: s.Partitions, bounds: s.Bounds, memory: w.memory,
	}
	if s.Combine != "" {
		writer.combine = named[*reducer](s.Combine).f
	}
	// A second copy of the same task on this executor must not meet the spills of the first.
	writer.path += "-" + r.order.ID
	if s.Dealt {
		writer.output = deal(writer, kindNamed(s.Kind), seq)
	} else {
		r.pairing(s.Kind).write(writer, seq)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outputs[outputKey{s.ID, r.order.Block.Partition}] = writer.output
}

func (r *run) pairing(name string) pairing {
	pairs := kindNamed(name).pairing()
	if pairs == nil {
		check(fmt.Errorf("rdd: %s is no pair, so it can't be shuffled", name))
	}
	return pairs
}

// readShuffle is the first step of a stage after a shuffle: it reads the pieces of all map outputs, merged by key.
func (r *run) readShuffle(id plan.ShuffleID, partition int) any {
	return r.pairing(r.order.Shuffles[id].Kind).merge(r.readOutputs(id, partition))
}

// readOutputs opens the pieces of all map outputs, in the order of the map partitions.
func (r *run) readOutputs(id plan.ShuffleID, partition int) (pieces []io.Reader) {
	for from, address := range r.order.Outputs[id] {
		pieces = append(pieces, heeding{r.ctx, r.readOutput(id, address, from, partition)})
	}
	return pieces
}

// readOutput opens one piece: a local one directly, that of another executor after it was read completely.
func (r *run) readOutput(id plan.ShuffleID, address string, from, to int) io.Reader {
	if address == r.worker.address {
		out, found := r.worker.output(id, from)
		if !found {
			check(&missing{address, errors.New("this executor has no such output")})
		}
		file, section, err := out.open(to)
		check(err)
		r.closers = append(r.closers, file.Close)
		return section
	}
	body, err := r.worker.client.post(r.ctx, outputURL(address, id, from, to), nil)
	if err != nil {
		check(&missing{address, err})
	}
	defer body.Close()
	piece, err := r.store(body)
	if err != nil {
		check(&missing{address, err})
	}
	return piece
}

// store keeps what comes from another executor: in memory while it fits into the task's share, otherwise in a file.
func (r *run) store(body io.Reader) (io.Reader, error) {
	room := max(0, r.worker.memory-r.held)
	data, err := io.ReadAll(io.LimitReader(body, room))
	r.held += int64(len(data))
	if err != nil || int64(len(data)) < room {
		return bytes.NewReader(data), err
	}
	file, err := os.CreateTemp(r.worker.dir, "fetched")
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, file.Close)
	if err := os.Remove(file.Name()); err != nil { // the file exists as long as it is open
		return nil, err
	}
	if _, err := file.Write(data); err != nil {
		return nil, err
	}
	r.held -= int64(len(data))
	if _, err := io.Copy(file, body); err != nil {
		return nil, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}
