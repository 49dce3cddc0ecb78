package intake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
)

// answered asks for an answer of so many bytes.
func answered(ctx context.Context, by *Sender, bytes int) (read func(), err error) {
	_, read, err = Answer(ctx, by, true, func(bytes int) int { return bytes }, func() (int, error) { return bytes, nil })
	return read, err
}

// connect makes a connection; the channel tells that it was ended.
func connect(all *Peers, ip string) (*Sender, chan struct{}) {
	s, closed := all.connected(from(ip)), make(chan struct{})
	s.end = func() {
		all.left(s)
		close(closed)
	}
	return s, closed
}

// isClosed is asked when nothing moves.
func isClosed(closed chan struct{}) bool {
	select {
	case <-closed:
		return true
	default:
		return false
	}
}

// TestUnreadAnswersOfAConnection (R34): what a connection has not read leaves room for only so much; a peer that reads
// continues at once. Small answers, and those of calls that change something, do not wait.
func TestUnreadAnswersOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldTimes
		all := NewPeers(h.held)
		s, closed := connect(all, "10.0.0.1")
		first, err := answered(t.Context(), s, 2*unreadConnectionMax)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := answered(t.Context(), s, unreadSmall); err != nil {
			t.Errorf("a small answer: %v", err)
		}
		made := 0
		begun := time.Now()
		_, _, err = Answer(t.Context(), s, true, func(bytes int) int { return bytes }, func() (int, error) {
			made++
			return unreadSmall + 1, nil
		})
		if waited := time.Since(begun); !api.Is(err, api.Limit) || waited != callWaitMax || made != 1 || api.RetryAfter(err) == 0 {
			t.Errorf("one that is not small was made %d times, and after %v: %v", made, waited, err)
		}
		if _, _, err := Answer(t.Context(), s, false, func(bytes int) int { return bytes }, func() (int, error) { return 1 << 20, nil }); err != nil {
			t.Errorf("one of what changes something: %v", err)
		}
		ended := make(chan error)
		go func() {
			read, err := answered(t.Context(), s, 1<<20)
			read()
			ended <- err
		}()
		synctest.Wait()
		first()
		first() // once counts
		if err := <-ended; err != nil {
			t.Errorf("what was not read is read, and the next one ends with %v", err)
		}
		if s.unread.left != unreadConnectionMax || s.address.unread.left != unreadAddressMax || all.Unread.Bytes.Load() != 0 || len(s.address.answers) != 0 {
			t.Errorf("all is read, and %d bytes are left", all.Unread.Bytes.Load())
		}
		if pause.For(t.Context(), 2*unreadTimeMax); isClosed(closed) || h.waits.Load() == 0 {
			t.Errorf("who has read is closed, or none of %d waits was told", h.waits.Load())
		}
	})
}

// TestUnreadAnswersEndTheConnection (R34): a peer that has not read an answer for long loses its connection, and what
// it has not read no longer counts.
func TestUnreadAnswersEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldTimes
		all := NewPeers(h.held)
		s, closed := connect(all, "10.0.0.1")
		for range 4 {
			if _, err := answered(t.Context(), s, unreadConnectionMax/4); err != nil {
				t.Fatal(err)
			}
		}
		if pause.For(t.Context(), unreadTimeMax-1); isClosed(closed) {
			t.Error("it is closed too early")
		}
		<-closed
		synctest.Wait()
		if all.Unread.Bytes.Load() != 0 || all.Unread.Closed.Load() != 1 || s.address.unread.left != unreadAddressMax {
			t.Errorf("%d bytes count, %d connections were closed", all.Unread.Bytes.Load(), all.Unread.Closed.Load())
		}
		if _, err := answered(t.Context(), s, 1<<20); !api.Is(err, api.Limit) || all.Unread.Bytes.Load() != 0 {
			t.Errorf("a connection that is closed is answered: %v", err)
		}
	})
}

// TestUnreadAnswersMakeRoom (R34): when all connections of an address, or of a principal, have left as much unread as
// they may, the one that has not read for longest makes room for the next. Others do not notice.
func TestUnreadAnswersMakeRoom(t *testing.T) {
	for name, most := range map[string]int{"": unreadAddressMax, "greedy": unreadPrincipalMax} { // order: irrelevant because each is by itself
		synctest.Test(t, func(t *testing.T) {
			var h heldTimes
			all := NewPeers(h.held)
			enter := func(i int) (*Sender, chan struct{}) {
				ip := "10.0.0.1"
				if name != "" {
					ip = fmt.Sprint("10.0.1.", i)
				}
				s, closed := connect(all, ip)
				s.BelongsTo(name)
				return s, closed
			}
			var ends []chan struct{}
			for i := range most / unreadConnectionMax {
				s, closed := enter(i)
				ends = append(ends, closed)
				if _, err := answered(t.Context(), s, unreadConnectionMax); err != nil {
					t.Fatal(err)
				}
				pause.For(t.Context(), unreadTurnMax/10)
			}
			last, lastEnd := enter(most / unreadConnectionMax)
			other, _ := connect(all, "10.0.0.9")
			if _, err := answered(t.Context(), other, unreadConnectionMax); err != nil {
				t.Errorf("another one: %v", err)
			}
			begun := time.Now()
			if _, err := answered(t.Context(), last, unreadConnectionMax); err != nil || time.Since(begun) != unreadTurnMax {
				t.Errorf("who waits is answered after %v: %v", time.Since(begun), err)
			}
			synctest.Wait()
			for i, closed := range ends {
				if isClosed(closed) != (i == 0) {
					t.Errorf("connection %d of %d: closed is %v", i, len(ends), isClosed(closed))
				}
			}
			if isClosed(lastEnd) {
				t.Error("who waited was closed")
			}
		})
	}
}

// TestNoRoomIsLost: what was taken for an answer that is not made is given back, also when its maker panics, and so is
// what was taken for one that has grown meanwhile.
func TestNoRoomIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, how := range []string{"error", "panic", "grown"} {
			s := NewSender()
			first, err := answered(t.Context(), s, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			made := 0
			go func() {
				defer func() { _ = recover() }()
				_, read, _ := Answer(t.Context(), s, true, func(bytes int) int { return bytes }, func() (int, error) {
					made++
					switch {
					case made == 1:
						return 100 << 10, nil
					case how == "error":
						return 0, errors.New("none")
					case how == "panic":
						panic("none")
					}
					return 200 << 10, nil
				})
				read()
			}()
			synctest.Wait()
			first()
			synctest.Wait()
			if made < 2 || s.unread.left != unreadConnectionMax {
				t.Errorf("%s: made %d times, %d bytes are left of %d", how, made, s.unread.left, unreadConnectionMax)
			}
		}
	})
}

// manyAnswers is a stream to which many answers are sent; gRPC keeps each until it is read.
type manyAnswers struct {
	grpc.ServerStream
	ctx  context.Context
	kept []mem.BufferSlice
	sent atomic.Int64
}

func (m *manyAnswers) Context() context.Context { return m.ctx }

func (m *manyAnswers) SendMsg(answer any) error {
	data, err := wire.Codec().Marshal(answer)
	m.kept = append(m.kept, data)
	m.sent.Add(1)
	return err
}

// TestStreamsOfAnswersWait (R34): what is sent on a stream of many answers counts until it is read, also after its call has
// ended; the next one waits for as long as a peer may take to read.
func TestStreamsOfAnswersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heldTimes
		s, closed := connect(NewPeers(h.held), "10.0.0.1")
		raw := &manyAnswers{ctx: peer.NewContext(t.Context(), &peer.Peer{Addr: remote{from("10.0.0.1"), s}})}
		stream := Counted(raw)
		large := &apiv1.SnapshotChunk{Data: make([]byte, 600<<10)}
		ended := make(chan error)
		for range 2 {
			go func() { ended <- stream.SendMsg(large) }()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := raw.sent.Load(); n != 1 {
			t.Errorf("%d large answers are with gRPC", n)
		}
		raw.kept[0].Free()
		if err := <-ended; err != nil {
			t.Errorf("the first was read, and the next is refused: %v", err)
		}
		if err := stream.SendMsg(&apiv1.SnapshotChunk{Data: make([]byte, 100)}); err != nil || raw.sent.Load() != 3 {
			t.Errorf("a small one waits, or ends with %v", err)
		}
		pause.For(t.Context(), time.Second)
		go func() { ended <- stream.SendMsg(large) }()
		err := <-ended
		synctest.Wait()
		if !api.Is(wire.Error(err), api.Limit) || !isClosed(closed) {
			t.Errorf("nothing is read for long, and it ends with %v, closed is %v", err, isClosed(closed))
		}
	})
}
