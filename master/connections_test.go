package master

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	_ "github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/intake"
)

// TestAStreamThatSaysNothingIsClosed: in time, and with a sentence; so is a connection that
// never speaks HTTP/2.
func TestAStreamThatSaysNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		defer end()
		var mute []net.Conn // they say nothing, or half the greeting of an agent
		for _, said := range []string{"", "TEND"} {
			one, err := network.Dial(t.Context(), "host:5060")
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			if _, err := io.WriteString(one, said); err != nil {
				t.Fatal(err)
			}
			mute = append(mute, one)
		}
		conn := peerOf(t, network, "client")
		defer conn.Close()
		began := time.Now()
		scheduler, err := apiv1.NewSchedulerServiceClient(conn).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		agent := OpenAgent(t.Context(), t, network.From("client").Dial, "host:5060")
		_, err = scheduler.Recv()
		_, also := agent.Recv()
		for _, err := range []error{err, also} {
			if !api.Is(wire.Error(err), api.Unavailable) || time.Since(began) != firstCallMax {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		for _, one := range mute {
			_, _ = io.Copy(io.Discard, one) // until it is closed
		}
		if took := time.Since(began); took > 2*handshakeMax {
			t.Errorf("a connection that said nothing was closed after %v", took)
		}
	})
}

// TestTheLongestSilentStreamIsClosed (R34): when there are too many of its address, over all of their connections, and at
// once; it is told when to come back.
func TestTheLongestSilentStreamIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		defer end()
		first, others := peerOf(t, network, "client"), []*grpc.ClientConn{peerOf(t, network, "client"), peerOf(t, network, "client")}
		for _, conn := range append(others, first) {
			defer conn.Close()
		}
		began := time.Now()
		open := func(conn *grpc.ClientConn) grpc.BidiStreamingClient[apiv1.SchedulerCalls, apiv1.SchedulerEvents] {
			stream, err := apiv1.NewSchedulerServiceClient(conn).Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return stream
		}
		longest := open(first)
		for i := range silentStreams {
			open(others[i%len(others)])
		}
		_, err := longest.Recv()
		if refused := wire.Error(err); !api.Is(refused, api.Unavailable) || api.RetryAfter(refused) != intake.ReturnRetry || time.Since(began) > time.Second {
			t.Errorf("after %v, to come back in %v: %v", time.Since(began), api.RetryAfter(refused), err)
		}
	})
}

// silentStreams is as many as may be silent; see intake's silentStreamsMax.
const silentStreams = 128
