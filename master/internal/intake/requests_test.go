package intake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
)

// caller is the stream of a call with a request of so many bytes; slow is closed when the last of them has come.
type caller struct {
	grpc.ServerStream
	ctx   context.Context
	bytes int
	slow  chan struct{}
	read  *atomic.Int64
	sent  any
}

func call(ctx context.Context, by *Sender, bytes int, read *atomic.Int64) *caller {
	return &caller{ctx: peer.NewContext(ctx, &peer.Peer{Addr: remote{new(net.TCPAddr), by}}), bytes: bytes, read: read}
}

func (c *caller) Context() context.Context { return c.ctx }

func (c *caller) RecvMsg(into any) error {
	c.read.Add(1)
	if c.slow != nil {
		<-c.slow
	}
	data, err := proto.Marshal(&apiv1.StoreWriteRequest{Writes: []*apiv1.StoreWrite{{Key: "k", Value: make([]byte, c.bytes)}}})
	if err != nil {
		return err
	}
	return wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into)
}

func (c *caller) SendMsg(answer any) error {
	c.sent = answer
	return nil
}

// keeper answers Write when it is let.
type keeper struct {
	apiv1.UnimplementedStoreServiceServer
	let   chan struct{}
	under atomic.Int64
}

func (k *keeper) Write(_ context.Context, r *apiv1.StoreWriteRequest) (*apiv1.StoreWriteResponse, error) {
	k.under.Add(1)
	<-k.let
	k.under.Add(-1)
	return &apiv1.StoreWriteResponse{Results: []*apiv1.StoreWritten{{Version: uint64(len(r.GetWrites()[0].GetValue()))}}}, nil
}

// TestACallIsDecidedAboutBeforeItIsRead: what it goes through first may refuse it, and knows which call it is.
func TestACallIsDecidedAboutBeforeItIsRead(t *testing.T) {
	q := NewRequests(NewDesk())
	service := q.Served(apiv1.StoreService_ServiceDesc, func(_ any, _ grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		return errors.New(info.FullMethod)
	}, nil)
	for _, one := range service.Streams {
		if one.StreamName != "Write" {
			continue
		}
		var read atomic.Int64
		if err := one.Handler(nil, call(t.Context(), NewSender(), 1, &read)); err == nil || err.Error() != apiv1.StoreService_Write_FullMethodName || read.Load() != 0 {
			t.Errorf("%v, after %d messages were read", err, read.Load())
		}
	}
}

// put is the handler of Write as a stream.
func put(q *Requests, on any, stream grpc.ServerStream) error {
	service := q.Served(apiv1.StoreService_ServiceDesc, func(on any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(on, stream)
	}, func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		return handle(ctx, request)
	})
	for _, one := range service.Streams {
		if one.StreamName == "Write" {
			return one.Handler(on, stream)
		}
	}
	return fmt.Errorf("there is no Write among %d streams", len(service.Streams))
}

// TestRequestsHaveRoom (R34): the requests of all calls that are under way have a bound in bytes, however many senders
// there are. A small request does not wait. What is not read waits in its stream.
func TestRequestsHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, on := NewRequests(NewDesk()), &keeper{let: make(chan struct{})}
		var read atomic.Int64
		const connections, calls, bytes = 20, 10, 1 << 20
		ended := make(chan error)
		for range connections {
			by := NewSender()
			for range calls {
				go func() { ended <- put(q, on, call(t.Context(), by, bytes, &read)) }()
			}
		}
		synctest.Wait()
		if under := on.under.Load(); under > requestBytesMax/bytes || under < requestBytesMax/bytes-1 {
			t.Errorf("%d requests of a megabyte are under way", under)
		}
		if n := read.Load(); n > requestBytesMax/bytes+connections*requestsReadMax {
			t.Errorf("%d requests were read", n)
		}
		small := call(t.Context(), NewSender(), 100, &read)
		go func() { ended <- put(q, on, small) }()
		synctest.Wait()
		if under := on.under.Load(); under != requestBytesMax/bytes {
			t.Errorf("a small one waits: %d are under way", under)
		}
		for range connections*calls + 1 {
			on.let <- struct{}{}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		if answer, _ := small.sent.(*apiv1.StoreWriteResponse); answer.GetResults()[0].GetVersion() != 100 {
			t.Errorf("the small one was answered with %v", small.sent)
		}
		if q.room.left != requestBytesMax {
			t.Errorf("nothing is under way, and %d of %d bytes are free", q.room.left, requestBytesMax)
		}
	})
}

// TestValuesAreNotHeldInMemory (R34): a value that was read continues at once, even if it is more than its connection
// may write. The next one is not read until it is paid for.
func TestValuesAreNotHeldInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldTimes
		q, on := NewRequests(NewDesk()), &keeper{let: make(chan struct{})}
		by := NewPeers(h.held).connected(from("10.0.0.1"))
		var read atomic.Int64
		ended := make(chan error)
		write := func() {
			go func() { ended <- put(q, on, call(t.Context(), by, 3<<19, &read)) }()
			synctest.Wait()
		}
		rate := rates[StoreExpense].connection
		owed := time.Duration((3<<19 - rate.First) / rate.PerSecond * float64(time.Second))
		write()
		if under := on.under.Load(); under != 1 || h.lines.Load() != 1 {
			t.Errorf("%d values are under way, the log tells %d times that a peer is held", under, h.lines.Load())
		}
		write()
		pause.For(t.Context(), owed-time.Millisecond)
		synctest.Wait()
		if n := read.Load(); n != 1 {
			t.Errorf("%d values were read before the first was paid for", n)
		}
		for range 2 {
			on.let <- struct{}{}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if n := read.Load(); n != 2 || h.lines.Load() != 1 {
			t.Errorf("%d values were read at last, the log tells %d times that a peer is held", n, h.lines.Load())
		}
	})
}

// TestSlowRequestsAreInNobodysWay (R34): a peer that sends the bytes of its requests slowly keeps only its own
// connection busy.
func TestSlowRequestsAreInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, on := NewRequests(NewDesk()), &keeper{let: make(chan struct{})}
		var read atomic.Int64
		slow, by, ended := make(chan struct{}), NewSender(), make(chan error)
		for range 50 {
			one := call(t.Context(), by, 1<<20, &read)
			one.slow = slow
			go func() { ended <- put(q, on, one) }()
		}
		synctest.Wait()
		if n := read.Load(); n != requestsReadMax {
			t.Errorf("%d requests of a connection are read at once", n)
		}
		go func() { ended <- put(q, on, call(t.Context(), NewSender(), 1<<20, &read)) }()
		on.let <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(slow)
		for range 50 {
			on.let <- struct{}{}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestLargeValuesOfAConnectionAreFew (R34): of the large values that a connection writes, a quarter of a megabyte, or
// one value, is on its way to the log. Some more are read meanwhile, and the rest is not. Values of other connections
// continue, and so do small ones.
func TestLargeValuesOfAConnectionAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, on := NewRequests(NewDesk()), &keeper{let: make(chan struct{})}
		var read atomic.Int64
		ended := make(chan error)
		write := func(by *Sender, bytes, times int) (under int64) {
			before := on.under.Load()
			for range times {
				go func() { ended <- put(q, on, call(t.Context(), by, bytes, &read)) }()
			}
			synctest.Wait()
			return on.under.Load() - before
		}
		senders := []*Sender{NewSender(), NewSender(), NewSender(), NewSender()}
		if under := write(senders[0], 200<<10, 32); under != 1 || read.Load() != 1+requestsReadMax {
			t.Errorf("of 32 large values of one connection %d are under way and %d were read", under, read.Load())
		}
		if under := write(senders[1], 20<<10, 32); under != valuesBytesMax/(20<<10) {
			t.Errorf("of 32 that are ten times smaller %d are under way", under)
		}
		if under := write(senders[2], 1<<20, 2); under != 1 {
			t.Errorf("of two that are larger than all may be %d are under way", under)
		}
		if under := write(senders[3], 100, 32); under != 32 {
			t.Errorf("of 32 small ones %d are under way", under)
		}
		for range 32 + 32 + 2 + 32 {
			on.let <- struct{}{}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		for _, by := range senders {
			if len(by.reading) != 0 || by.values.left != valuesBytesMax || q.room.left != requestBytesMax {
				t.Errorf("nothing is under way, and %d are read, %d bytes free", len(by.reading), by.values.left)
			}
		}
	})
}
