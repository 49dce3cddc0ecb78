package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/tenderhq/tender/internal/testing/memnet"
)

// connect makes a connection from a1 to m1.
func connect(t *testing.T, n *memnet.Net) (near, far net.Conn) {
	t.Helper()
	listener, err := n.Listen("m1:5060")
	if err != nil {
		t.Fatal(err)
	}
	near, err = n.From("a1").Dial(t.Context(), "m1:5060")
	if err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
		_ = listener.Close()
	})
	return near, far
}

func TestBytesArriveInOrderThenTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := connect(t, memnet.New())
		sent := bytes.Repeat([]byte("0123456789"), 100_000) // many times what a pipe can hold
		go func() {
			if n, err := near.Write(sent); n != len(sent) || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
			_ = near.Close()
		}()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("read %d of %d bytes: %v", len(got), len(sent), err)
		}
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("write to a closed peer: %v", err)
		}
		if near.LocalAddr().String() != far.RemoteAddr().String() || far.LocalAddr().String() != "m1:5060" {
			t.Fatalf("addresses: %v %v", near.LocalAddr(), far.LocalAddr())
		}
	})
}

func TestAddresses(t *testing.T) {
	n := memnet.New()
	if _, err := n.Dial(t.Context(), "m1:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("nobody listens: %v", err)
	}
	if _, err := n.Listen("m1"); err == nil {
		t.Fatal("listened without a port")
	}
	listener, err := n.Listen("m1:0")
	if err != nil || listener.Addr().String() == "m1:0" {
		t.Fatalf("%v %v", listener, err)
	}
	if _, err := n.Listen(listener.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("listened twice: %v", err)
	}
	waiting, err := n.Dial(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("accept after close: %v", err)
	}
	if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("a connection that nobody accepted: %v", err)
	}
	if _, err := n.Listen(listener.Addr().String()); err != nil {
		t.Fatalf("the address is free again: %v", err)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	n := memnet.New()
	listener, err := n.Listen("m1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for range 128 {
		if _, err := n.Dial(t.Context(), "m1:1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Dial(t.Context(), "m1:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("a full backlog: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, _ := connect(t, memnet.New())
		start := time.Now()
		_ = near.SetReadDeadline(start.Add(time.Minute))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		_ = near.SetWriteDeadline(start.Add(2 * time.Minute))
		if n, err := near.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == 1<<20 {
			t.Fatal(n, err)
		}
		if past := time.Since(start); past != 2*time.Minute {
			t.Fatalf("took %v", past)
		}
		_ = near.SetDeadline(time.Time{})
		_ = near.Close()
		var op *net.OpError
		if _, err := near.Read(make([]byte, 1)); !errors.As(err, &op) || !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestCutHoldsEverythingUntilHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		near, far := connect(t, n)
		n.Cut("a1", "m1")
		if _, err := near.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		_ = near.Close()
		got := make(chan string, 1)
		go func() {
			text, err := io.ReadAll(far)
			got <- string(text) + " " + errorText(err)
		}()
		dialed := make(chan error, 2)
		dial := func(ctx context.Context) {
			_, err := n.From("a1").Dial(ctx, "m1:5060")
			dialed <- err
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go dial(soon)
		if err := <-dialed; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dialled through a cut: %v", err)
		}
		go dial(t.Context())
		synctest.Wait()
		if len(got) != 0 || len(dialed) != 0 {
			t.Fatal("something came through the cut")
		}
		if _, err := n.From("a2").Dial(t.Context(), "m1:5060"); err != nil {
			t.Fatalf("another host is not cut: %v", err)
		}
		n.Heal("m1", "a1")
		if text := <-got; text != "hello <nil>" {
			t.Fatal(text)
		}
		if err := <-dialed; err != nil {
			t.Fatal(err)
		}
	})
}

func TestCutEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		near, far := connect(t, n)
		n.Cut("m1", memnet.Everybody)
		_, _ = near.Write([]byte("x"))
		_ = far.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		n.HealAll()
		_ = far.SetReadDeadline(time.Time{})
		if n, err := far.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		near, far := connect(t, n)
		n.Cut("a1", "m1")
		if n.Conns("a1", memnet.Everybody) != 1 {
			t.Fatal("one connection is open")
		}
		n.Break("m1", "a1")
		for _, end := range []net.Conn{near, far} {
			if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if _, err := end.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
		}
		if n.Conns("m1", memnet.Everybody) != 0 {
			t.Fatal("broken connections are forgotten")
		}
	})
}

// TestCrashIsOneMoment: of many that dial as soon as their connection fails, from the host and within it, none is fast
// enough. Nothing that was under way arrives, and after the Heal nobody listens on the host.
func TestCrashIsOneMoment(t *testing.T) {
	for range 100 {
		synctest.Test(t, crashWhileAllRedial)
	}
}

func crashWhileAllRedial(t *testing.T) {
	const callers = 50
	n := memnet.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var listeners []net.Listener
	within, between := make(chan error, callers), make(chan error, callers)
	for _, to := range []struct {
		address string
		dialed  chan error
	}{{"a1:1", within}, {"m1:5060", between}} {
		listener, err := n.Listen(to.address)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, listener)
		for range callers {
			conn, err := n.From("a1").Dial(ctx, to.address)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("a connection to %s ended with %v", to.address, err)
				}
				_, err := n.From("a1").Dial(ctx, to.address)
				to.dialed <- err
			}()
		}
	}
	late, err := listeners[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	n.Crash("a1")
	if _, err := late.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a write after the crash: %v", err)
	}
	synctest.Wait()
	if open, waiting := n.Conns("a1", memnet.Everybody), callers-len(between); open != 0 || waiting != callers {
		t.Fatalf("after the crash %d connections are open, and %d of %d callers of another host wait", open, waiting, callers)
	}
	for range callers {
		if err := <-within; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("a dial within the host: %v", err)
		}
	}
	if _, err := listeners[0].Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the host's listener: %v", err)
	}
	n.Heal("a1", memnet.Everybody)
	for range callers {
		if err := <-between; err != nil {
			t.Fatalf("a dial to another host, once healed: %v", err)
		}
	}
	if _, err := n.From("m1").Dial(ctx, "a1:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("a dial to the host, once healed: %v", err)
	}
}

// A gRPC client notices a silent partition by its keepalive, on the bubble's clock, and comes back after it.
func TestGRPCThroughACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		listener, err := n.Listen("m1:5060")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second}))
		healthpb.RegisterHealthServer(server, health.NewServer())
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()

		client, err := grpc.NewClient("passthrough:///m1:5060",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(n.From("a1").Dial),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := healthpb.NewHealthClient(client).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		n.Cut("a1", "m1")
		if _, err := stream.Recv(); err == nil {
			t.Fatal("heard something through the cut")
		}
		t.Logf("noticed after %v", time.Since(start))
		n.Heal("a1", "m1")
		if _, err := healthpb.NewHealthClient(client).Check(t.Context(), &healthpb.HealthCheckRequest{},
			grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Fatal(err)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

func TestMuteSilencesOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		near, far := connect(t, n)
		n.Mute("a1", "m1")
		if _, err := near.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Write([]byte("soon")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(near, make([]byte, 4)); err != nil {
			t.Fatalf("the other direction: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, host := range []string{"a1", "m1"} {
			if _, err := n.From(host).Dial(ctx, map[string]string{"a1": "m1:5060", "m1": "a1:1"}[host]); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s dials: %v", host, err)
			}
		}
		start := time.Now()
		time.AfterFunc(time.Hour, func() { n.Unmute("a1", "m1") })
		got := make([]byte, 4)
		if _, err := io.ReadFull(far, got); err != nil || string(got) != "late" || time.Since(start) != time.Hour {
			t.Fatalf("%q after %v: %v", got, time.Since(start), err)
		}
	})
}

func TestDelayKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		delays := 0
		n.Delay(func() time.Duration {
			delays++
			return time.Duration(delays*7%50) * time.Millisecond
		})
		near, far := connect(t, n)
		sent := make([]byte, 300_000)
		for i := range sent {
			sent[i] = byte(i * i >> 8)
		}
		start := time.Now()
		go func() {
			for part := sent; len(part) > 0; part = part[min(len(part), 1000):] {
				_, _ = near.Write(part[:min(len(part), 1000)])
			}
			_ = near.Close()
		}()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("read %d of %d bytes, or in another order: %v", len(got), len(sent), err)
		}
		if took := time.Since(start); took < 49*time.Millisecond || delays < 300 {
			t.Fatalf("took %v with %d delays", took, delays)
		}
	})
}
