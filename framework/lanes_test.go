package framework

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestLanesAtRandom: whatever writes enter and leave, no two writes under way share a lane, the numbers in a lane only
// grow, and there are no more lanes than writes were under way at once.
func TestLanesAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l, ended := newLanes(), make(chan struct{})
	last, busiest := map[uint32]uint64{}, 0
	var busy []*lane
	for range 20_000 {
		if n := len(busy); n == api.StoreLanesMax || n > 0 && random.IntN(100) < 48 {
			i := random.IntN(n)
			l.leave(busy[i])
			busy = append(busy[:i], busy[i+1:]...)
			continue
		}
		taken, err := l.enter(context.Background(), ended)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range busy {
			if other.number == taken.number {
				t.Fatalf("two writes at once in lane %d", taken.number)
			}
		}
		if taken.write != last[taken.number]+1 {
			t.Fatalf("write %d follows %d in lane %d", taken.write, last[taken.number], taken.number)
		}
		last[taken.number] = taken.write
		busy = append(busy, taken)
		busiest = max(busiest, len(busy))
		if int(taken.number) >= busiest {
			t.Fatalf("lane %d was made for %d writes at once", taken.number, busiest)
		}
	}
	if busiest < 10 {
		t.Errorf("never more than %d writes at once", busiest)
	}
}

// TestLanesAreFull: a write that comes while all lanes are in use waits until a lane is free, its own context ends, or
// the client ends.
func TestLanesAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ended := newLanes(), make(chan struct{})
		first, err := l.enter(context.Background(), ended)
		for range api.StoreLanesMax - 1 {
			if _, err := l.enter(context.Background(), ended); err != nil {
				t.Fatal(err)
			}
		}
		late, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := l.enter(late, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("all lanes are in use: %v", err)
		}
		time.AfterFunc(time.Minute, func() { l.leave(first) })
		began := time.Now()
		next, err2 := l.enter(context.Background(), ended)
		if err != nil || err2 != nil || next != first || next.write != 2 || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v, %v, %v", time.Since(began), next, err, err2)
		}
		time.AfterFunc(time.Minute, func() { close(ended) })
		if _, err := l.enter(context.Background(), ended); !errors.Is(err, errEnded) {
			t.Errorf("the client has ended: %v", err)
		}
	})
}

// laneStore notes the lane and the number of each put, and holds some puts back.
type laneStore struct {
	*fakeStore
	came chan string
	hold map[string]chan struct{} // by key
}

func (f *laneStore) Write(ctx context.Context, r *apiv1.StoreWriteRequest) (*apiv1.StoreWriteResponse, error) {
	return writeAll(r, func(write *apiv1.StoreWrite) (uint64, error) {
		f.came <- fmt.Sprintf("%s lane %d number %d", write.Key, write.Lane, write.Write)
		if held := f.hold[write.Key]; held != nil {
			select {
			case <-held:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return 1, nil
	})
}

// TestWritesStayInOrder: writes one after the other are numbered in one lane. A write that takes long does not hold up
// others, which use another lane. A write that is given up may still reach the masters. The next write of its lane has
// a higher number, so the late one can't undo it.
func TestWritesStayInOrder(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		store := &laneStore{fakeStore: &fakeStore{}, came: make(chan string, 1), hold: map[string]chan struct{}{"slow": make(chan struct{}), "lost": make(chan struct{})}}
		n.store = store
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		m.lead(1)
		kept := next(t, s.clients).Store()
		put := func(ctx context.Context, key, want string) {
			t.Helper()
			_, err := kept.Put(ctx, key, nil, AnyVersion)
			if got := next(t, store.came); got != want || err != nil && ctx.Err() == nil {
				t.Errorf("put came as %q, want %q; %v", got, want, err)
			}
		}
		ctx := context.Background()
		put(ctx, "a", "a lane 0 number 1")
		put(ctx, "b", "b lane 0 number 2")

		slow := make(chan error, 1)
		go func() { _, err := kept.Put(ctx, "slow", nil, AnyVersion); slow <- err }()
		if got := next(t, store.came); got != "slow lane 0 number 3" {
			t.Errorf("put came as %q", got)
		}
		put(ctx, "c", "c lane 1 number 1")
		put(ctx, "d", "d lane 1 number 2")
		close(store.hold["slow"])
		if err := next(t, slow); err != nil {
			t.Error(err)
		}
		put(ctx, "e", "e lane 0 number 4")

		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		put(brief, "lost", "lost lane 0 number 5")
		put(ctx, "f", "f lane 0 number 6")
		r.end()
	})
}
