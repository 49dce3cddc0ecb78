package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// heldStore answers a call for each time that it is let. It refuses the keys that begin with "no".
type heldStore struct {
	apiv1.StoreServiceClient
	let   chan error
	calls chan string // the keys of each call, with the last byte of each value
}

func (h *heldStore) Write(_ context.Context, r *apiv1.StoreWriteRequest, _ ...grpc.CallOption) (*apiv1.StoreWriteResponse, error) {
	keys := wire.Each(r.Writes, func(one *apiv1.StoreWrite) string { return one.Key + string(one.Value[max(0, len(one.Value)-1):]) })
	h.calls <- strings.Join(keys, " ")
	if err := <-h.let; err != nil {
		return nil, err
	}
	return writeAll(r, func(one *apiv1.StoreWrite) (uint64, error) {
		if strings.HasPrefix(one.Key, "no") {
			return 0, api.E("store.put", api.Stale, one.Key, errors.New("it has another version"))
		}
		return one.Write, nil
	})
}

// TestWritesGoTogether: what comes while some calls are under way goes with the next one, as much as a call holds. Each
// caller hears of its own write, however the others of its call end.
func TestWritesGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldStore{let: make(chan error), calls: make(chan string, 100)}
		w := &writes{store: store}
		var callers sync.WaitGroup
		write := func(key string, number uint64, bytes int) {
			callers.Go(func() {
				version, err := w.write(t.Context(), nil, &apiv1.StoreWrite{Key: key, Value: make([]byte, bytes), Write: number})
				if key == "no" && !api.Is(err, api.Stale) || key != "no" && (err != nil || version != number) {
					t.Errorf("%s: version %d, %v", key, version, err)
				}
			})
			synctest.Wait()
		}
		for i := range writeCallsMax {
			write(fmt.Sprint("first", i), uint64(i), 0)
		}
		write("a", 7, 0)
		write("no", 8, 0)
		write("b", 9, writeCallBytesMax)
		write("c", 10, 2*writeCallBytesMax)
		write("d", 11, 0)
		for i := range writeCallsMax {
			if got, want := <-store.calls, fmt.Sprint("first", i); got != want {
				t.Errorf("call %q, want %q", got, want)
			}
		}
		for _, want := range []string{"a no", "b\x00", "c\x00", "d"} {
			store.let <- nil
			synctest.Wait()
			if got := <-store.calls; got != want {
				t.Errorf("call %q, want %q", got, want)
			}
		}
		for range writeCallsMax {
			store.let <- nil
		}
		callers.Wait()
	})
}

// TestWritesThatAreGivenUp: a write is sent as it was when it was made, whatever its caller does once it has given up;
// and it is not sent any more if it has waited until then.
func TestWritesThatAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldStore{let: make(chan error), calls: make(chan string, 100)}
		w := &writes{store: store}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		for i := range writeCallsMax + 3 {
			callers.Go(func() {
				value := []byte("v")
				_, err := w.write(brief, nil, &apiv1.StoreWrite{Key: fmt.Sprint("k", i), Value: value})
				if value[0] = 'x'; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("write %d: %v", i, err)
				}
			})
			synctest.Wait() // until it is sent, if it can be
		}
		callers.Wait()
		if len(w.waiting) != 0 {
			t.Errorf("%d writes wait for nobody", len(w.waiting))
		}
		for range writeCallsMax {
			store.let <- errors.New("lost")
			if keys := <-store.calls; !strings.HasSuffix(keys, "v") {
				t.Errorf("sent as %q", keys)
			}
		}
		synctest.Wait()
		if len(store.calls) != 0 || w.calls != 0 {
			t.Errorf("%d calls more, %d under way", len(store.calls), w.calls)
		}
		w.end()
		if _, err := w.write(t.Context(), nil, &apiv1.StoreWrite{Key: "late"}); !api.Is(err, api.Unavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}
