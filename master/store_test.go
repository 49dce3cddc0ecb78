package master_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/history"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master"
)

// storeClient is one writer of a framework's store. It repeats a write under its number, at whichever master leads,
// until the outcome is known (R17).
type storeClient struct {
	stubs   []apiv1.StoreServiceClient
	session *apiv1.StoreSession
	lane    uint32
	writes  uint64
}

// subscribed is the session of a new framework, or of one that is taken over.
func subscribed(t *testing.T, conn *grpc.ClientConn, id, instance string) *apiv1.StoreSession {
	s := newScheduler(t, conn, protocol.Subscribe{
		Framework: api.Framework{ID: api.FrameworkID(id), Name: "store", Roles: []api.Role{"web"}, FailoverTimeout: time.Hour}, Instance: api.Nonce(instance),
	})
	defer s.stop()
	in := awaitEvent[protocol.Subscribed](s)
	return &apiv1.StoreSession{FrameworkId: string(in.Framework), Session: in.Session, Instance: instance}
}

// until calls the masters in turn until one knows the answer.
func (c *storeClient) until(call func(context.Context, apiv1.StoreServiceClient) (*apiv1.StoreEntry, error)) (*apiv1.StoreEntry, error) {
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		entry, err := call(ctx, c.stubs[i%len(c.stubs)])
		cancel()
		if err == nil {
			return entry, nil
		}
		switch known := wire.Error(err); known.Kind {
		case api.Stale, api.Fenced, api.Invalid, api.Limit:
			return nil, known
		}
		<-time.After(20 * time.Millisecond)
	}
}

// written is the entry that a write leaves.
func written(ctx context.Context, s apiv1.StoreServiceClient, session *apiv1.StoreSession, write *apiv1.StoreWrite) (*apiv1.StoreEntry, error) {
	version, err := master.WriteStore(ctx, s, session, write)
	return &apiv1.StoreEntry{Key: write.Key, Version: version}, err
}

func (c *storeClient) put(key, value string, ifVersion *uint64) (*apiv1.StoreEntry, error) {
	c.writes++
	number := c.writes
	return c.until(func(ctx context.Context, s apiv1.StoreServiceClient) (*apiv1.StoreEntry, error) {
		return written(ctx, s, c.session, &apiv1.StoreWrite{Key: key, Value: []byte(value), IfVersion: ifVersion, Write: number, Lane: c.lane})
	})
}

func (c *storeClient) get(key string) (*apiv1.StoreEntry, error) {
	return c.until(func(ctx context.Context, s apiv1.StoreServiceClient) (*apiv1.StoreEntry, error) {
		return s.Get(ctx, &apiv1.StoreGetRequest{Session: c.session, Key: key})
	})
}

// TestStore: what its calls answer, page by page, and what a watcher sees of them.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		defer h.close()
		conn := h.connect(h.leader().GRPCAddr())
		defer conn.Close()
		session := subscribed(t, conn, "", "i1")
		stub := apiv1.NewStoreServiceClient(conn)
		client := &storeClient{stubs: []apiv1.StoreServiceClient{stub}, session: session}

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		watch, err := stub.Watch(ctx, &apiv1.StoreWatchRequest{Session: session, Prefix: "a/", MarkComplete: true})
		if err != nil {
			t.Fatal(err)
		}
		if mark, err := watch.Recv(); err != nil || !mark.GetComplete() || mark.GetKey() != "" {
			t.Fatalf("a watch of what has no entries begins with %v, %v", mark, err)
		}
		sees := func(want string) {
			t.Helper()
			began := time.Now()
			entry, err := watch.Recv()
			got := fmt.Sprint(entry.GetKey(), " ", string(entry.GetValue()), " ", entry.GetVersion(), " ", entry.GetDeleted())
			if err != nil || got != want || time.Since(began) > 50*time.Millisecond {
				t.Errorf("the watcher sees %q after %v, %v; not %q", got, time.Since(began), err, want)
			}
		}
		for i, key := range []string{"a/1", "b/1", "a/2"} {
			if entry, err := client.put(key, "v", nil); err != nil || entry.Version != uint64(i+1) {
				t.Fatalf("put %s: %v, %v", key, entry, err)
			}
		}
		sees("a/1 v 1 false")
		sees("a/2 v 3 false")
		if _, err := client.put("a/1", "w", new(uint64)); !api.Is(err, api.Stale) {
			t.Errorf("a put of a version that is not there: %v", err)
		}
		page, err := stub.List(ctx, &apiv1.StoreListRequest{Session: session, Limit: 2})
		if err != nil || len(page.Items) != 2 {
			t.Errorf("a page: %v, %v", page, err)
		}
		for _, token := range []string{page.NextPageToken, "a/2", "\x0099\x00a/2"} { // of this leader, an older master, another leader
			rest, err := stub.List(ctx, &apiv1.StoreListRequest{Session: session, PageToken: token})
			if err != nil || len(rest.Items) != 1 || rest.Items[0].Key != "b/1" || rest.NextPageToken != "" {
				t.Errorf("the page behind %q: %v, %v", token, rest, err)
			}
		}
		client.writes++
		if _, err := written(ctx, stub, session, &apiv1.StoreWrite{Key: "a/1", Delete: true, Write: client.writes}); err != nil {
			t.Error(err)
		}
		sees("a/1  4 true")
		if entry, err := client.get("a/1"); err != nil || entry.Version != 0 {
			t.Errorf("a deleted key: %v, %v", entry, err)
		}
		if _, err := written(ctx, stub, session, &apiv1.StoreWrite{Key: "x"}); !api.Is(wire.Error(err), api.Invalid) {
			t.Errorf("a write without a number: %v", err)
		}
		writes := make([]*apiv1.StoreWrite, api.StoreLanesMax+1)
		for lane := range writes {
			writes[lane] = &apiv1.StoreWrite{Key: fmt.Sprint("many/", lane), Lane: uint32(lane), Write: 1, IfVersion: new(uint64)}
		}
		client.writes++
		writes[0].Write = client.writes
		writes[7].IfVersion = &writes[0].Write // of a key that does not exist
		if _, err := stub.Write(ctx, &apiv1.StoreWriteRequest{Session: session, Writes: writes}); !api.Is(wire.Error(err), api.Limit) {
			t.Errorf("%d writes in a call: %v", len(writes), err)
		}
		many, err := stub.Write(ctx, &apiv1.StoreWriteRequest{Session: session, Writes: writes[:api.StoreLanesMax]})
		for lane, result := range many.GetResults() {
			if stale := result.GetError().GetKind() == apiv1.ErrorKind(api.Stale); stale != (lane == 7) || !stale && result.GetVersion() == 0 {
				t.Errorf("write %d of many: %v", lane, result)
			}
		}
		if err != nil || len(many.GetResults()) != api.StoreLanesMax {
			t.Errorf("%d results of many, %v", len(many.GetResults()), err)
		}
		if _, err := stub.Write(ctx, &apiv1.StoreWriteRequest{Session: session}); !api.Is(wire.Error(err), api.Invalid) {
			t.Errorf("no writes in a call: %v", err)
		}
		next := subscribed(t, conn, session.FrameworkId, "i2")
		if next.FrameworkId != session.FrameworkId || next.Session <= session.Session {
			t.Fatalf("%v follows %v", next, session)
		}
		if _, err := watch.Recv(); !api.Is(wire.Error(err), api.Fenced) {
			t.Errorf("the watcher of an older session: %v", err)
		}
		if _, err := client.put("a/3", "late", nil); !api.Is(err, api.Fenced) {
			t.Errorf("a write of an older session: %v", err)
		}
	})
}

// TestStoreLanes: one instance's writes in several lanes. A lane remembers its last write,
// however far the others are: repeated, also at the next leader, it gets its first answer
// and changes nothing, and what is older than it is refused (R17).
func TestStoreLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		client, framework := &storeClient{}, ""
		connect := func() (done func() error) {
			conn := h.connect(h.leader().GRPCAddr())
			session := subscribed(t, conn, framework, "i1")
			framework = session.FrameworkId
			client = &storeClient{stubs: []apiv1.StoreServiceClient{apiv1.NewStoreServiceClient(conn)}, session: session}
			return conn.Close
		}
		put := func(lane uint32, write uint64, key, value string) (uint64, error) {
			entry, err := client.until(func(ctx context.Context, s apiv1.StoreServiceClient) (*apiv1.StoreEntry, error) {
				return written(ctx, s, client.session, &apiv1.StoreWrite{Key: key, Value: []byte(value), Write: write, Lane: lane})
			})
			return entry.GetVersion(), err
		}
		done := connect()
		for i, write := range []struct {
			lane  uint32
			write uint64
		}{{0, 1}, {1, 1}, {1, 2}, {0, 2}, {api.StoreLanesMax - 1, 9}, {1, 3}} {
			if version, err := put(write.lane, write.write, "k", fmt.Sprint(i)); version != uint64(i+1) || err != nil {
				t.Fatalf("%v: version %d, %v", write, version, err)
			}
		}
		repeats := func() {
			t.Helper()
			for _, test := range []struct {
				lane    uint32
				write   uint64
				version uint64
				kind    api.Kind
			}{{0, 2, 4, 0}, {api.StoreLanesMax - 1, 9, 5, 0}, {1, 3, 6, 0}, {1, 2, 0, api.Stale}, {0, 1, 0, api.Stale}, {api.StoreLanesMax, 1, 0, api.Invalid}} {
				version, err := put(test.lane, test.write, "k", "again")
				if version != test.version || (err != nil) != (test.kind != 0) || test.kind != 0 && !api.Is(err, test.kind) {
					t.Errorf("write %d of lane %d: version %d, %v", test.write, test.lane, version, err)
				}
			}
			if entry, err := client.get("k"); err != nil || string(entry.Value) != "5" || entry.Version != 6 {
				t.Errorf("the key is %v, %v", entry, err)
			}
		}
		repeats()
		old := h.leader().ID()
		if err := done(); err != nil {
			t.Error(err)
		}
		h.stop(old)
		done = connect()
		if h.leader().ID() == old {
			t.Fatal("nobody else leads")
		}
		repeats()
		if err := done(); err != nil {
			t.Error(err)
		}
	})
}

// TestStoreIsLinearizable: what several clients are told while leaders are cut off one
// after the other could have been told by a store that is a single copy. Every
// operation's outcome is known in the end: writes are repeated under their number.
func TestStoreIsLinearizable(t *testing.T) {
	for seed := range 3 {
		var events []history.Event
		synctest.Test(t, func(t *testing.T) { events = storeHistory(t, seed) })
		if len(events) < 200 {
			t.Fatalf("only %d operations", len(events))
		}
		if err := history.Judge(events); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func storeHistory(t *testing.T, seed int) []history.Event {
	h := newHouse(t, 3)
	defer h.close()
	var stubs []apiv1.StoreServiceClient
	for _, id := range []api.MasterID{"m1", "m2", "m3"} {
		conn := h.connect(h.masters[id].GRPCAddr())
		defer conn.Close()
		stubs = append(stubs, apiv1.NewStoreServiceClient(conn))
	}
	first := h.connect(h.leader().GRPCAddr())
	session := subscribed(t, first, "", "i1")
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	var (
		mu     sync.Mutex
		events []history.Event
		clock  atomic.Int64 // the order of calls and answers, finer than virtual time
		over   = make(chan struct{})
		busy   sync.WaitGroup
	)
	for n := range 4 {
		client := &storeClient{stubs: stubs, session: session, lane: uint32(n)}
		busy.Go(func() {
			seen := uint64(0)
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(20+(i*7+n*13+seed*29)%60) * time.Millisecond):
				}
				op := history.Op{Kind: history.Put, Key: fmt.Sprint("k", (i+n)%2), Value: fmt.Sprint(n, ".", i), Version: history.Any}
				switch i % 3 {
				case 0:
					op = history.Op{Kind: history.Get, Key: op.Key}
				case 1:
					op.Version = seen
				}
				called := clock.Add(1)
				got, err := client.do(op)
				returned := clock.Add(1)
				if err != nil {
					t.Errorf("%+v: %v", op, err)
					return
				}
				seen = got.Version
				mu.Lock()
				events = append(events, history.Event{Op: op, Got: got, Call: called, Return: returned})
				mu.Unlock()
			}
		})
	}
	for range 4 {
		<-time.After(1500 * time.Millisecond)
		host := "host" + string(h.leader().ID()[1:])
		for i := range 3 {
			if other := fmt.Sprint("host", i+1); other != host {
				h.net.Cut(host, other) // clients still reach it
			}
		}
		<-time.After(3 * time.Second)
		h.net.HealAll()
	}
	<-time.After(time.Second)
	close(over)
	busy.Wait()
	return events
}

func (c *storeClient) do(op history.Op) (history.Got, error) {
	if op.Kind == history.Get {
		entry, err := c.get(op.Key)
		return history.Got{Version: entry.GetVersion(), Value: string(entry.GetValue())}, err
	}
	condition := &op.Version
	if op.Version == history.Any {
		condition = nil
	}
	entry, err := c.put(op.Key, op.Value, condition)
	if api.Is(err, api.Stale) {
		return history.Got{Stale: true}, nil
	}
	return history.Got{Version: entry.GetVersion()}, err
}
