package inside

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
)

// Sessions are the sessions of one agent. They take over connections from an HTTP server and may outlive it: see Wait.
type Sessions struct {
	// Most is how many sessions there may be at the same time. 0: none.
	Most int
	// Enter is the command line of the helper; see Session.
	Enter []string

	mu      sync.Mutex
	count   int
	working sync.WaitGroup
}

// writeTimeMax is how long a client may read nothing before its command is ended.
const writeTimeMax = time.Minute

// Wait returns when no session is left. The caller has ended their contexts before.
func (s *Sessions) Wait() { s.working.Wait() }

// enterOne counts a session, or returns why there can be none.
func (s *Sessions) enterOne() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.Most <= 0 || len(s.Enter) == 0:
		return api.E("agent.exec", api.Denied, "", errors.New("this agent runs no commands for people; it was started with --exec-max 0"))
	case s.count >= s.Most:
		return api.E("agent.exec", api.Limit, "",
			fmt.Errorf("%d commands run inside tasks of this agent, and no more may (--exec-max); end one of them", s.count))
	}
	s.count++
	s.working.Add(1)
	return nil
}

func (s *Sessions) leaveOne() {
	s.mu.Lock()
	s.count--
	s.mu.Unlock()
	s.working.Done()
}

// Check refuses requests that do not come from our own client, above all those that a page in a browser can make.
func Check(r *http.Request) error {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return api.E("agent.exec", api.Denied, r.URL.Path, err)
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), frames.Upgrade) || r.ProtoMajor != 1 {
		return api.E("agent.exec", api.Invalid, r.URL.Path, errors.New("ask by HTTP/1.1 with Upgrade: "+frames.Upgrade))
	}
	return nil
}

// Serve turns the connection into a session and serves it to its end. If it returns an error, nothing was answered yet.
func (s *Sessions) Serve(w http.ResponseWriter, r *http.Request, one Session) error {
	if err := s.enterOne(); err != nil {
		return err
	}
	defer s.leaveOne()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return api.E("agent.exec", api.Internal, r.URL.Path, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	to := patient{conn}
	one.Enter = s.Enter
	if err := errors.Join(conn.SetDeadline(time.Time{}), accept(to)); err == nil {
		_ = one.Serve(ctx, bufferedConn{buffered.Reader, conn}, to) // the client was told, or is gone
	}
	return nil
}

func accept(to patient) error {
	_, err := to.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + frames.Upgrade + "\r\n\r\n"))
	return err
}

// patient is a connection that gives up when its other end does not read.
type patient struct{ net.Conn }

func (p patient) Write(data []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil {
		return 0, err
	}
	return p.Conn.Write(data)
}

// bufferedConn reads first what the server has read ahead.
type bufferedConn struct {
	*bufio.Reader
	net.Conn
}

func (b bufferedConn) Read(data []byte) (int, error) { return b.Reader.Read(data) }
