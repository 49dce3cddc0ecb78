package health_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/health"
	"github.com/tenderhq/tender/internal/testing/freeports"
)

// probe makes a check at the address; "" means that it passed.
func probe(ctx context.Context, t *testing.T, address net.Addr, check api.Check) string {
	t.Helper()
	_, err := health.Probe(ctx, map[string]uint16{"p": uint16(address.(*net.TCPAddr).Port)}, check)
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestHTTP(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/ill", http.StatusFound)
		case "/ill":
			http.Error(w, "no", http.StatusServiceUnavailable)
		case "/endless": // the body is never read
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
			}
		case "/hangs":
			<-hold
		}
	}))
	defer server.Close()
	defer close(hold)
	for path, want := range map[string]string{"": "", "/moved": "", "/endless": "", "/ill": "it answered 503 Service Unavailable"} {
		if got := probe(t.Context(), t, server.Listener.Addr(), api.Check{HTTP: &api.HTTPCheck{Port: "p", Path: path}}); got != want {
			t.Errorf("GET %q: %q, want %q", path, got, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got := probe(ctx, t, server.Listener.Addr(), api.Check{HTTP: &api.HTTPCheck{Port: "p", Path: "/hangs"}}); got != "it took longer than its timeout" {
		t.Errorf("a server that hangs: %q", got)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(freeports.ReserveOne(t))))
	if err != nil {
		t.Fatal(err)
	}
	check := api.Check{TCP: &api.TCPCheck{Port: "p"}}
	if got := probe(t.Context(), t, listener.Addr(), check); got != "" {
		t.Errorf("a port that listens: %q", got)
	}
	listener.Close()
	if got := probe(t.Context(), t, listener.Addr(), check); !strings.Contains(got, "refused") {
		t.Errorf("a port that does not: %q", got)
	}
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, answers := grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(server, answers)
	answers.SetServingStatus("ill", healthpb.HealthCheckResponse_NOT_SERVING)
	go func() { _ = server.Serve(listener) }() // until Stop
	defer server.Stop()
	for service, want := range map[string]string{"": "", "ill": "it answered NOT_SERVING", "none": "NotFound: unknown service"} {
		if got := probe(t.Context(), t, listener.Addr(), api.Check{GRPC: &api.GRPCCheck{Port: "p", Service: service}}); got != want {
			t.Errorf("service %q: %q, want %q", service, got, want)
		}
	}
}

// Only the beginning of a task's long answer is told.
func TestLongAnswersAreCut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 500 "+strings.Repeat("\xffword ", 1000)+"\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}()
	got := probe(t.Context(), t, listener.Addr(), api.Check{HTTP: &api.HTTPCheck{Port: "p"}})
	if !strings.HasPrefix(got, "it answered 500 ?word") || len(got) > 300 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
