package framework

import (
	"context"
	"errors"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// fakeStore is a master's store, shared by fake masters.
type fakeStore struct {
	apiv1.UnimplementedStoreServiceServer
	mu      sync.Mutex
	entries map[string]*apiv1.StoreEntry
	done    map[uint64]*apiv1.StoreEntry // by write number
	lose    int                          // replies to lose
	fail    error
	// failures are how many reads fail; negative: all.
	failures int
}

func (f *fakeStore) Get(_ context.Context, r *apiv1.StoreGetRequest) (*apiv1.StoreEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil && f.failures != 0 {
		f.failures--
		return nil, wire.Status(f.fail)
	}
	if entry := f.entries[r.Key]; entry != nil {
		return entry, nil
	}
	return &apiv1.StoreEntry{Key: r.Key}, nil
}

func (f *fakeStore) Write(ctx context.Context, r *apiv1.StoreWriteRequest) (*apiv1.StoreWriteResponse, error) {
	return writeAll(r, func(write *apiv1.StoreWrite) (uint64, error) { return f.write(r.Session, write) })
}

// writeAll answers a request with the result of each write.
func writeAll(r *apiv1.StoreWriteRequest, write func(*apiv1.StoreWrite) (uint64, error)) (*apiv1.StoreWriteResponse, error) {
	return &apiv1.StoreWriteResponse{Results: wire.Each(r.Writes, func(one *apiv1.StoreWrite) *apiv1.StoreWritten {
		version, err := write(one)
		return &apiv1.StoreWritten{Version: version, Error: wire.ErrorToProto(wire.Error(err))}
	})}, nil
}

func (f *fakeStore) write(session *apiv1.StoreSession, write *apiv1.StoreWrite) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if session.FrameworkId != "framework-1" || session.Session != 1 || session.Instance == "" {
		return 0, api.E("store.put", api.Fenced, write.Key, nil)
	}
	if write.Delete {
		delete(f.entries, write.Key)
		return 0, nil
	}
	entry := f.done[write.Write]
	if entry == nil {
		version := f.entries[write.Key].GetVersion()
		if write.IfVersion != nil && *write.IfVersion != version {
			return 0, api.E("store.put", api.Stale, write.Key, errors.New("it has another version"))
		}
		entry = &apiv1.StoreEntry{Key: write.Key, Value: write.Value, Version: version + 1}
		f.entries[write.Key], f.done[write.Write] = entry, entry
	}
	if f.lose > 0 {
		f.lose--
		return 0, api.E("store.put", api.Unknown, write.Key, errors.New("leadership was lost"))
	}
	return entry.Version, nil
}

func (f *fakeStore) List(_ context.Context, r *apiv1.StoreListRequest) (*apiv1.StoreListResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []string
	for key := range f.entries {
		if strings.HasPrefix(key, r.Prefix) && key > r.PageToken {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	page := &apiv1.StoreListResponse{}
	if len(keys) > 0 {
		page.Items = append(page.Items, f.entries[keys[0]])
	}
	if len(keys) > 1 {
		page.NextPageToken = keys[0]
	}
	return page, nil
}

func (f *fakeStore) Watch(r *apiv1.StoreWatchRequest, stream grpc.ServerStreamingServer[apiv1.StoreEntry]) error {
	if err := stream.Send(&apiv1.StoreEntry{Key: r.Prefix + "1", Version: 7}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func TestStore(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		store := &fakeStore{entries: map[string]*apiv1.StoreEntry{}, done: map[uint64]*apiv1.StoreEntry{}, lose: 2}
		n.store = store
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		m.lead(1)
		kept := next(t, s.clients).Store()
		ctx := context.Background()

		if entry, err := kept.Get(ctx, "job/1"); err != nil || entry.Version != 0 {
			t.Errorf("an unknown key: %+v, %v", entry, err)
		}
		entry, err := kept.Put(ctx, "job/1", []byte("a"), 0) // two replies are lost
		if err != nil || entry.Version != 1 {
			t.Errorf("put: %+v, %v", entry, err)
		}
		if _, err := kept.Put(ctx, "job/1", []byte("b"), 0); !api.Is(err, api.Stale) {
			t.Errorf("put of what exists: %v", err)
		}
		if entry, err := kept.Put(ctx, "job/1", []byte("b"), AnyVersion); err != nil || entry.Version != 2 {
			t.Errorf("put: %+v, %v", entry, err)
		}
		if _, err := kept.Put(ctx, "job/2", nil, AnyVersion); err != nil {
			t.Error(err)
		}
		if entries, err := kept.List(ctx, "job/"); err != nil || len(entries) != 2 || string(entries[0].Value) != "b" {
			t.Errorf("list: %+v, %v", entries, err)
		}
		for entry, err := range kept.All(ctx, "job/") {
			if err != nil || entry.Key != "job/1" {
				t.Errorf("the first of all: %+v, %v", entry, err)
			}
			break // the other entries are not read
		}
		ended, end := context.WithCancel(ctx)
		end()
		count := 0
		for entry, err := range kept.All(ended, "job/") {
			if count++; count > 1 || entry.Key != "" || !api.Is(err, api.Unavailable) {
				t.Errorf("all, when its context has ended: %+v, %v", entry, err)
			}
		}
		if count == 0 {
			t.Error("nobody hears that the context has ended")
		}
		if err := kept.Delete(ctx, "job/1", AnyVersion); err != nil {
			t.Error(err)
		}

		m.stop() // a call waits for the next leader
		got := make(chan Entry, 1)
		go func() {
			entry, err := kept.Get(ctx, "job/2")
			if err != nil {
				t.Error(err)
			}
			got <- entry
		}()
		<-time.After(time.Minute)
		m = n.start("m1:1")
		m.lead(2)
		if entry := next(t, got); entry.Version != 1 {
			t.Errorf("after the failover: %+v", entry)
		}

		late, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		store.mu.Lock()
		store.fail, store.failures = api.E("store.get", api.Unavailable, "job/2", errors.New("no quorum")), -1
		store.mu.Unlock()
		if _, err := kept.Get(late, "job/2"); !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), "no quorum") {
			t.Errorf("without a quorum: %v", err)
		}

		later := api.E("store.get", api.Limit, "", errors.New("too many calls")).RetryIn(5 * time.Second)
		for _, test := range []struct {
			fail   error
			within time.Duration // asked again
			want   api.Kind
		}{
			{later, 4 * time.Second, api.Unavailable},                        // too early to be asked again
			{later, 8 * time.Second, api.Internal},                           // it was, and is well
			{api.E("store.get", api.Limit, "", nil), time.Second, api.Limit}, // no time heals it
		} {
			store.mu.Lock()
			store.fail, store.failures = test.fail, 1
			store.mu.Unlock()
			patient, stop := context.WithTimeout(ctx, test.within)
			if _, err := kept.Get(patient, "job/2"); api.KindOf(err) != test.want {
				t.Errorf("asked for %v when refused with %v: %v", test.within, test.fail, err)
			}
			stop()
		}

		seen := make(chan Entry)
		enough := errors.New("enough")
		watched := make(chan error)
		go func() {
			watched <- kept.Watch(ctx, "job/", func(entry Entry) error {
				seen <- entry
				if entry.Version == 8 {
					return enough
				}
				return nil
			})
		}()
		if entry := next(t, seen); entry.Version != 7 {
			t.Errorf("watch: %+v", entry)
		}
		m.stop()
		m = n.start("m1:1")
		m.lead(3)
		if entry := next(t, seen); entry.Version != 7 {
			t.Errorf("watch after the failover: %+v", entry)
		}
		r.end()
		if err := next(t, watched); !api.Is(err, api.Unavailable) {
			t.Errorf("watch at the end: %v", err)
		}
		if _, err := kept.Get(ctx, "job/2"); !api.Is(err, api.Unavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}
