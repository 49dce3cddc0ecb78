package master

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/memnet"
)

// storeOf subscribes a framework, whose stream stays open, and returns what its calls to the store must name.
func storeOf(t *testing.T, conn *grpc.ClientConn) *apiv1.StoreSession {
	t.Helper()
	return subscribed(t, conn, "i", nil)
}

// subscribed is the same for an instance of that name, and a framework with labels.
func subscribed(t *testing.T, conn *grpc.ClientConn, instance string, labels map[string]string) *apiv1.StoreSession {
	t.Helper()
	stream, err := apiv1.NewSchedulerServiceClient(conn).Session(t.Context())
	if err == nil {
		err = stream.Send(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{
			{Number: 1, Call: &apiv1.SchedulerCall_Subscribe{Subscribe: &apiv1.Subscribe{
				Instance: instance, Framework: &apiv1.Framework{
					Name: "hoarder", Roles: []string{"web"}, FailoverTimeout: durationpb.New(1 << 40), Labels: labels}}}},
			{Number: 2, Call: &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{Last: true}}},
		}})
	}
	for err == nil {
		var events *apiv1.SchedulerEvents
		if events, err = stream.Recv(); err != nil {
			break
		}
		for _, event := range events.GetEvents() {
			if in := event.GetSubscribed(); in != nil {
				return &apiv1.StoreSession{FrameworkId: in.GetFrameworkId(), Session: in.GetSession(), Instance: instance}
			}
		}
	}
	t.Fatal(err)
	return nil
}

// inUse is what is on the heap and needed.
func inUse() int {
	var memory runtime.MemStats
	for range 3 { // pools let go of what they have in the second round
		runtime.GC()
	}
	runtime.ReadMemStats(&memory)
	return int(memory.HeapAlloc)
}

// deafWatcher returns a connection whose streams take little before they are read.
func deafWatcher(t *testing.T, network *memnet.Net) *grpc.ClientConn {
	t.Helper()
	deaf, err := grpc.NewClient("passthrough:///host:5060", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(network.From("deaf").Dial), grpc.WithInitialWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	return deaf
}

// TestDeafWatchersHoldFewValues (R34): many watches on one connection that reads nothing hold two values together,
// however often these are replaced. A watcher that reads is told of each key nevertheless.
func TestDeafWatchersHoldFewValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		writer := peerOf(t, network, "writer")
		session := storeOf(t, writer)
		deaf := deafWatcher(t, network)
		reading, err := apiv1.NewStoreServiceClient(writer).Watch(t.Context(), &apiv1.StoreWatchRequest{Session: session})
		if err != nil {
			t.Fatal(err)
		}
		const watches, bytes = watchersMax - 1, 512 << 10
		watching, stop := context.WithCancel(t.Context())
		store := apiv1.NewStoreServiceClient(writer)
		put := func(write uint64) {
			version, err := WriteStore(t.Context(), store, session, &apiv1.StoreWrite{Key: fmt.Sprint("k", write%2), Value: make([]byte, bytes), Write: write})
			if err != nil {
				t.Fatal(err)
			}
			if entry, err := reading.Recv(); err != nil || len(entry.GetValue()) != bytes || entry.GetVersion() != version {
				t.Fatalf("the one who reads is told of version %d, not %d: %v", entry.GetVersion(), version, err)
			}
			synctest.Wait()
		}
		put(1)
		for i := range uint64(watches) {
			if _, err := apiv1.NewStoreServiceClient(deaf).Watch(watching, &apiv1.StoreWatchRequest{Session: session}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			put(2 + i)
		}
		before := inUse()
		stop()
		synctest.Wait()
		if held := before - inUse(); held > 4*bytes {
			t.Errorf("%d watches of which nothing is read hold %d KiB", watches, held>>10)
		}
		_, _ = writer.Close(), deaf.Close()
		end()
	})
}

// TestWatchersThatWereCutOffHoldFewValues (R34): what gRPC has of a watch that was cut off, as nothing of it was read, stays
// until its connection ends. So it counts until then, however many watches follow it.
func TestWatchersThatWereCutOffHoldFewValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		writer := peerOf(t, network, "writer")
		session := storeOf(t, writer)
		deaf := deafWatcher(t, network)
		const rounds, bytes = 8, 512 << 10
		store := apiv1.NewStoreServiceClient(writer)
		watching, stop := context.WithCancel(t.Context())
		for i := range uint64(rounds) {
			if _, err := WriteStore(t.Context(), store, session, &apiv1.StoreWrite{Key: "k", Value: make([]byte, bytes), Write: 1 + i}); err != nil {
				t.Fatal(err)
			}
			for range watchersMax / rounds {
				if _, err := apiv1.NewStoreServiceClient(deaf).Watch(watching, &apiv1.StoreWatchRequest{Session: session}); err != nil {
					t.Fatal(err)
				}
			}
			pause.For(t.Context(), time.Minute)
			synctest.Wait()
		}
		before := inUse()
		stop()
		synctest.Wait()
		if held := before - inUse(); held > 4*bytes {
			t.Errorf("%d watches that were cut off one after the other hold %d KiB", watchersMax, held>>10)
		}
		_, _ = writer.Close(), deaf.Close()
		end()
	})
}
