package framework

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// shipsMax bounds the copies that are sent at one time. An agent that asks for one more is told to come back later,
	// and its task ends with reason FETCH_FAILED.
	shipsMax = 256
	// shipTimeout bounds how long one copy may take, so that a reader that does not read can't keep its place.
	shipTimeout = 10 * time.Minute
	// shippedName is the name of the program in the sandbox of its executor.
	shippedName = "executor"
)

var errNoHost = errors.New("it names no host; agents connect to it, so name one by which they reach this machine")

// Self describes this very program as an executor of the given ID, started with the arguments; in that process
// [executor.Active] is true. Unlike [executor.Self] it needs no shared file system. The first call begins to serve the
// program to agents over HTTP at Config.ShipAddress, until Run ends; an agent fetches it when it starts the executor,
// and checks its SHA-256. The program is served as it was started, even if its file was replaced or deleted since.
// Agents need the operating system and the processor that it was built for, and its shared libraries (none with
// CGO_ENABLED=0).
//
//	self, err := client.Self("counter")
//
// An executor that already runs goes on with the old program, and all tasks must describe an executor ID alike. So
// choose a new ID for a new version of the program. The error's kind is [api.Unavailable] if the address can't be
// listened on.
//
// [executor.Active]: https://pkg.go.dev/github.com/tenderhq/tender/framework/executor#Active
// [executor.Self]: https://pkg.go.dev/github.com/tenderhq/tender/framework/executor#Self
func (c *Client) Self(id api.ExecutorID, args ...string) (*api.Executor, error) {
	const op = "framework.self"
	if err := api.CheckID("executor", string(id)); err != nil {
		return nil, api.E(op, api.Invalid, id, err)
	}
	source, sum, err := c.loop.ship.open()
	if err != nil {
		return nil, api.E(op, api.Unavailable, id, err)
	}
	return &api.Executor{ID: id, Command: api.Command{
		Argv: append([]string{"./" + shippedName}, args...),
		URIs: []api.URI{{Source: source, Name: shippedName, SHA256: sum, Executable: true}},
	}}, nil
}

// ship serves this program to agents. It may be used from any goroutine.
type ship struct {
	listen  func(ctx context.Context, address string) (net.Listener, error)
	address string
	slots   chan struct{} // capacity shipsMax

	mu      sync.Mutex
	program *os.File // nil: not open yet
	source  string
	sum     string
	server  *http.Server
	serving sync.WaitGroup
	over    bool
}

func newShip(config Config) *ship {
	return &ship{listen: config.Listen, address: config.ShipAddress, slots: make(chan struct{}, shipsMax)}
}

// open begins to serve the program at the first call. It returns the program's address and its checksum.
func (s *ship) open() (source, sum string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return "", "", errEnded
	}
	if s.program == nil {
		if err := s.begin(); err != nil {
			return "", "", err
		}
	}
	return s.source, s.sum, nil
}

func (s *ship) begin() error {
	program, err := openProgram()
	if err != nil {
		return err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, program)
	if err != nil {
		return errors.Join(err, program.Close())
	}
	listener, err := s.listen(context.Background(), s.address)
	if err != nil {
		return errors.Join(fmt.Errorf("ShipAddress: %w", err), program.Close())
	}
	s.program, s.sum = program, hex.EncodeToString(sum.Sum(nil))
	s.source = "http://" + listener.Addr().String() + "/" + s.sum
	s.server = &http.Server{Handler: s.handler(size), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: shipTimeout}
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // until close
	return nil
}

// openProgram opens the file of the running program, even if its path now holds another file.
func openProgram() (*os.File, error) {
	if file, err := os.Open("/proc/self/exe"); err == nil {
		return file, nil
	}
	name, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's own path is not known: %w", err)
	}
	return os.Open(name)
}

// handler serves the program, and nothing else, under its checksum.
func (s *ship) handler(size int64) http.Handler {
	program, name := s.program, "/"+s.sum
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != name || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.NotFound(w, r)
			return
		}
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			http.Error(w, fmt.Sprintf("%d copies are under way", shipsMax), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(program, 0, size))
	})
}

// close stops serving, including the copies that are being sent.
func (s *ship) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.program == nil {
		return
	}
	_ = s.server.Close() // broken copies are fetched again with the next attempt of their task
	s.serving.Wait()
	_ = s.program.Close() // it was only read
}
