package direct_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/wire"
)

// mostBytes is the size of the largest message in these tests.
const mostBytes = 1 << 20

type (
	word   = wrapperspb.BytesValue
	up     = grpc.BidiStreamingServer[word, word]
	client = grpc.BidiStreamingClient[word, word]
)

// world has a server of both kinds of streams.
type world struct {
	t      *testing.T
	net    *memnet.Net
	handle func(up) error // set before the first stream
}

// serve runs a test in virtual time beside a server whose streams are handled as the test says.
func serve(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		listener, err := network.Listen("host:1")
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, net: network, handle: echo}
		sessions := direct.NewServer(mostBytes, func(stream grpc.ServerStream) error {
			return wire.Status(w.handle(&grpc.GenericServerStream[word, word]{ServerStream: stream}))
		})
		server := grpc.NewServer(grpc.Creds(sessions.Credentials(insecure.NewCredentials())))
		healthv1.RegisterHealthServer(server, health.NewServer())
		go func() { _ = server.Serve(listener) }()
		test(w)
		server.Stop()
		sessions.Close()
		sessions.Wait()
	})
}

func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	return w.net.From("client").Dial(ctx, address)
}

func (w *world) open(ctx context.Context) client {
	w.t.Helper()
	stream, err := direct.Open[word, word](ctx, w.dial, "host:1", mostBytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return stream
}

// echo answers each message with the same, and ends with an error when there are no more.
func echo(stream up) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return errOver
		}
		if err := stream.Send(message); err != nil {
			return err
		}
	}
}

var errOver = api.E("test", api.Removed, "it", errors.New("that was all")).RetryIn(time.Second)

// TestMessagesGoBothWays (R85): small and large ones, and the error of the end with all that it says; beside it gRPC is served.
func TestMessagesGoBothWays(t *testing.T) {
	serve(t, func(w *world) {
		t, stream := w.t, w.open(w.t.Context())
		for _, size := range []int{0, 1, 4 << 10, 4<<10 + 1, 300_000, mostBytes - 100} {
			sent := bytes.Repeat([]byte{7}, size)
			if err := stream.Send(&word{Value: sent}); err != nil {
				t.Fatal(err)
			}
			if got, err := stream.Recv(); err != nil || !bytes.Equal(got.GetValue(), sent) {
				t.Fatalf("of %d bytes came %d: %v", size, len(got.GetValue()), err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err := stream.Recv()
		if said := wire.Error(err); !api.Is(said, api.Removed) || api.RetryAfter(said) != time.Second || said.Subject != "it" {
			t.Errorf("it ended with %v", err)
		}
		conn, err := grpc.NewClient("passthrough:///host:1", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(w.dial))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Errorf("gRPC at the same address: %v", err)
		}
	})
}

// TestTheEndArrives: also when the client still sends, or when a handler that waits is ended from outside.
func TestTheEndArrives(t *testing.T) {
	for name, handle := range map[string]func(up) error{
		"at once": func(up) error { return errOver },
		"from outside": func(stream up) error {
			go direct.HangUp(stream.Context())(errOver)
			for {
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, func(w *world) {
				w.handle = handle
				stream := w.open(w.t.Context())
				_ = stream.Send(&word{Value: make([]byte, 60_000)}) // it may be too late
				if _, err := stream.Recv(); !api.Is(err, api.Removed) {
					w.t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// TestWhoDoesNotReadIsLeft: a stream ends in time though its client reads nothing and does not close.
func TestWhoDoesNotReadIsLeft(t *testing.T) {
	serve(t, func(w *world) {
		ended := make(chan error)
		w.handle = func(stream up) error {
			go func() {
				for {
					if err := stream.Send(&word{Value: make([]byte, 60_000)}); err != nil {
						ended <- err
						return
					}
				}
			}()
			<-time.After(time.Second)
			return errOver
		}
		began := time.Now()
		w.open(w.t.Context())
		if err := <-ended; err == nil {
			w.t.Error("all was sent to a client that reads nothing")
		}
		if took := time.Since(began); took > time.Minute {
			w.t.Errorf("it took %v", took)
		}
	})
}

// TestTheClientLeaves: its context ends the stream at both ends.
func TestTheClientLeaves(t *testing.T) {
	serve(t, func(w *world) {
		left := make(chan error, 1)
		w.handle = func(stream up) error {
			_, err := stream.Recv()
			<-stream.Context().Done()
			left <- err
			return err
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		stream := w.open(ctx)
		synctest.Wait()
		cancel()
		if _, err := stream.Recv(); !errors.Is(err, context.Canceled) {
			w.t.Errorf("the client's end: %v", err)
		}
		if err := <-left; err == nil {
			w.t.Error("the server has received a message that nobody sent")
		}
	})
}

// TestHalvesAndWorse (R34, R85): what is announced as too large, or is of another kind, is not read, and its client is told
// so, whatever the handler returns. Half a frame holds up nobody who ends the stream.
func TestHalvesAndWorse(t *testing.T) {
	for name, test := range map[string]struct {
		frame string
		told  api.Kind
	}{
		"too large":       {string(binary.BigEndian.AppendUint32([]byte{0}, mostBytes+1)), api.Limit},
		"of another kind": {"\x02\x00\x00\x00\x00", api.Invalid},
		"half a head":     {"\x00\x00", api.Removed},
		"half a message":  {"\x00\x00\x00\x00\x09half", api.Removed},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, func(w *world) {
				heard := make(chan error, 1)
				w.handle = func(stream up) error {
					late := time.AfterFunc(time.Second, func() { direct.HangUp(stream.Context())(errOver) })
					defer late.Stop()
					_, err := stream.Recv()
					heard <- err
					return nil
				}
				conn, err := w.dial(w.t.Context(), "host:1")
				if err != nil {
					w.t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, "TENDER 1\n"+test.frame); err != nil {
					w.t.Fatal(err)
				}
				if err := <-heard; err == nil {
					w.t.Error("it was taken for a message")
				}
				got, err := io.ReadAll(conn)
				said := new(apiv1.Error)
				if err != nil || len(got) < 5 || got[0] != 1 || proto.Unmarshal(got[5:], said) != nil || !api.Is(wire.ErrorFromProto(said), test.told) {
					w.t.Errorf("the client is told %q, %v; want %v", got, err, test.told)
				}
			})
		})
	}
}
