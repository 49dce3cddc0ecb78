package lookout

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
)

// other is a master that knows of a leader from some time on.
type other struct {
	apiv1.UnimplementedMasterServiceServer
	asked  atomic.Int32
	after  time.Duration // counted from the beginning of the test
	from   time.Time
	term   api.Term
	leader string
}

func (o *other) Leader(ctx context.Context, r *apiv1.LeaderRequest) (*apiv1.LeaderResponse, error) {
	o.asked.Add(1)
	if !wire.TermFromProto(r.GetAfter()).Before(o.term) {
		<-ctx.Done()
		return nil, status.Error(codes.Unavailable, "nobody newer")
	}
	pause.For(ctx, time.Until(o.from))
	return &apiv1.LeaderResponse{Term: wire.TermToProto(o.term), GrpcAddress: o.leader}, ctx.Err()
}

// watch runs a lookout for a session with m1; the only other master is m2. Heard is called in term 7 at the given
// times. It returns what the lookout finds within the limit, and when.
func watch(t *testing.T, m2 *other, heard []time.Duration, limit time.Duration) (found string, after time.Duration) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	apiv1.RegisterMasterServiceServer(server, m2)
	go func() { _ = server.Serve(listener) }() // until Stop
	defer server.Stop()
	began := time.Now()
	m2.from = began.Add(m2.after)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l := New(Config{
		Own: "m1:1", Masters: []string{"m1:1", "m2:1"}, Term: api.Term{Number: 7},
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		},
	})
	go func() {
		for _, at := range heard {
			pause.For(ctx, time.Until(began.Add(at)))
			l.Heard(api.Term{Number: 7})
		}
	}()
	found = l.Run(ctx)
	return found, time.Since(began)
}

func TestSilentLeaderIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m2 := &other{term: api.Term{Number: 8}, leader: "m3:1", after: 3 * time.Second}
		found, after := watch(t, m2, []time.Duration{time.Second}, time.Minute)
		if found != "m3:1" || after < 3*time.Second || after > 5*time.Second {
			t.Errorf("%q after %v; the leader of term 8 began after 3s", found, after)
		}
	})
}

// TestAnImpossibleTermIsNoNews: a master that names a leader of a term that no election can have reached draws nobody
// away (R1).
func TestAnImpossibleTermIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m2 := &other{term: api.Term{Number: 1 << 60}, leader: "m3:1"}
		if found, after := watch(t, m2, []time.Duration{time.Second}, time.Minute); found != "" {
			t.Errorf("%q after %v", found, after)
		}
	})
}

func TestSlowLeaderIsNotLeft(t *testing.T) {
	for name, m2 := range map[string]*other{
		"nobody newer leads":       {term: api.Term{Number: 7}, leader: "m3:1"},
		"an older one is believed": {term: api.Term{Number: 6}, leader: "m3:1"},
		"it leads again itself":    {term: api.Term{Number: 8}, leader: "m1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if found, _ := watch(t, m2, []time.Duration{0}, time.Minute); found != "" {
					t.Errorf("left for %q", found)
				}
				if m2.asked.Load() == 0 {
					t.Error("a minute's silence, and nobody was asked")
				}
			})
		})
	}
}

func TestPunctualLeaderIsNotDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m2 := &other{term: api.Term{Number: 8}, leader: "m3:1"}
		var heard []time.Duration
		for at := time.Second; at < 30*time.Second; at += 1400 * time.Millisecond {
			heard = append(heard, at)
		}
		if found, _ := watch(t, m2, heard, 29*time.Second); found != "" || m2.asked.Load() > 0 {
			t.Errorf("left for %q after %d questions", found, m2.asked.Load())
		}
	})
}

// TestFirstWordIsMissing: a master that never sends anything may not be the leader of term 7.
func TestFirstWordIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m2 := &other{term: api.Term{Number: 7}, leader: "m3:1"}
		if found, after := watch(t, m2, nil, time.Minute); found != "m3:1" || after > 3*time.Second {
			t.Errorf("%q after %v", found, after)
		}
	})
}
