package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -rewrite writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -rewrite accepts this:\n%s", file, got)
	}
}

// now is the time at which all commands of the tests run.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// shell runs commands against a master that answers from memory, or none.
type shell struct {
	env  map[string]string
	dial func(context.Context, string) (net.Conn, error)

	asks  bool   // a person is at the terminal
	stdin string // what is typed
}

func (s *shell) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	app := &cli.App{Caller: caller.Caller{
		Stdin: strings.NewReader(s.stdin), Asks: s.asks, Stdout: &out, Stderr: &err,
		Lookup: func(name string) (string, bool) { value, ok := s.env[name]; return value, ok },
		Now:    func() time.Time { return now },
		Dial:   s.dial,
	}}
	code = app.Run(t.Context(), args)
	return out.String(), err.String(), code
}

// serving returns a shell for which this server is at every master address.
func serving(t *testing.T, operator apiv1.OperatorServiceServer) *shell {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	apiv1.RegisterOperatorServiceServer(server, operator)
	apiv1.RegisterWatchServiceServer(server, noEvents{})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return &shell{dial: func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }}
}

// noEvents is a master's history in which nothing has happened.
type noEvents struct {
	apiv1.UnimplementedWatchServiceServer
}

func (noEvents) ListEvents(context.Context, *apiv1.ListEventsRequest) (*apiv1.ListEventsResponse, error) {
	return &apiv1.ListEventsResponse{}, nil
}
