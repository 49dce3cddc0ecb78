package framework

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// writeCallsMax is how many calls with writes a session has under way. Writes that come meanwhile wait, and then go
	// together, because a call costs far more than a write.
	writeCallsMax = 32
	// writeCallBytesMax bounds the writes of a call; a single one may be larger. Masters read as much at once.
	writeCallBytesMax = 7 << 10
)

// writes sends the writes of a session to its master. They may come from any goroutine.
type writes struct {
	store apiv1.StoreServiceClient

	mu      sync.Mutex
	waiting []*waitingWrite // guarded by mu
	calls   int             // under way; guarded by mu
	over    bool            // the connection is closed; guarded by mu
	sending sync.WaitGroup
}

// waitingWrite is a write whose caller waits for the result.
type waitingWrite struct {
	*apiv1.StoreWrite
	written chan writeResult // has room for it
}

type writeResult struct {
	version uint64
	err     error
}

// write sends a write, and returns the version that its key has by it. It keeps nothing of the write when it returns.
func (w *writes) write(ctx context.Context, session *apiv1.StoreSession, write *apiv1.StoreWrite) (version uint64, err error) {
	one := &waitingWrite{write, make(chan writeResult, 1)}
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return 0, errSessionOver
	}
	w.waiting = append(w.waiting, one)
	if w.calls < writeCallsMax {
		w.calls++
		w.sending.Go(func() { w.send(session) })
	}
	w.mu.Unlock()
	select {
	case result := <-one.written:
		return result.version, result.err
	case <-ctx.Done():
		w.forget(one)
		return 0, ctx.Err()
	}
}

// forget takes out a write that nobody waits for any more, unless it is sent already.
func (w *writes) forget(one *waitingWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.Index(w.waiting, one); at >= 0 {
		w.waiting = slices.Delete(w.waiting, at, at+1)
	}
}

var errSessionOver = api.E("store.write", api.Unavailable, "", errors.New("the session is over"))

// send makes one call after the other until nothing waits. Its calls end with the connection at the latest.
func (w *writes) send(session *apiv1.StoreSession) {
	for {
		all := w.take()
		if len(all) == 0 {
			return
		}
		request := &apiv1.StoreWriteRequest{Session: session, Writes: wire.Each(all, func(one *waitingWrite) *apiv1.StoreWrite { return one.StoreWrite })}
		answer, err := w.store.Write(context.Background(), request)
		for i, one := range all {
			result := writeResult{err: err}
			if err == nil {
				result = resultOf(answer, i)
			}
			one.written <- result
		}
	}
}

// resultOf returns the result of a write by its place in the call.
func resultOf(answer *apiv1.StoreWriteResponse, at int) writeResult {
	if at >= len(answer.GetResults()) {
		return writeResult{err: api.E("store.write", api.Internal, "", errors.New("the master's answer has too few results"))}
	}
	result := answer.GetResults()[at]
	if err := wire.ErrorFromProto(result.GetError()); err != nil {
		return writeResult{err: err}
	}
	return writeResult{version: result.GetVersion()}
}

// take removes the writes of the next call from those that wait; none ends the calls.
func (w *writes) take() []*waitingWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(w.waiting) {
		if size += proto.Size(w.waiting[n]); n > 0 && size > writeCallBytesMax {
			break
		}
		// Its caller may give up and change the value while it is being sent.
		w.waiting[n].Value = bytes.Clone(w.waiting[n].Value)
		n++
	}
	taken := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	if n == 0 {
		w.calls--
	}
	return taken
}

// end returns when no call is under way. The connection is closed.
func (w *writes) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.sending.Wait()
}
