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
)

// Sessions are those of one agent. They take connections over from an HTTP server, which ends before they do: see Wait.
type Sessions struct {
	// Most is how many there may be at a time. 0: none.
	Most int
	// Enter starts the helper; see Session.
	Enter []string

	mu      sync.Mutex
	count   int
	working sync.WaitGroup
}

// writeTimeMax is how long a client may read nothing before its command is ended.
const writeTimeMax = time.Minute

// Wait returns when no session is left. Their contexts have ended before.
func (s *Sessions) Wait() { s.working.Wait() }

// enterOne counts a session, or says why there is none to be had.
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

// Check refuses what is no question of our own client, above all one that a page in a browser can make.
func Check(r *http.Request) error {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return api.E("agent.exec", api.Denied, r.URL.Path, err)
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), Upgrade) || r.ProtoMajor != 1 {
		return api.E("agent.exec", api.Invalid, r.URL.Path, errors.New("ask by HTTP/1.1 with Upgrade: "+Upgrade))
	}
	return nil
}

// Serve makes the connection a session and serves it to its end. An error comes before anything was answered.
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
		_ = one.Serve(ctx, bufferedConn{buffered.Reader, conn}, to) // the client was told; or it is gone
	}
	return nil
}

func accept(to patient) error {
	_, err := to.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Upgrade + "\r\n\r\n"))
	return err
}

// patient is a connection whose other end must read.
type patient struct{ net.Conn }

func (p patient) Write(data []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil {
		return 0, err
	}
	return p.Conn.Write(data)
}

// bufferedConn reads what the server has read ahead first.
type bufferedConn struct {
	*bufio.Reader
	net.Conn
}

func (b bufferedConn) Read(data []byte) (int, error) { return b.Reader.Read(data) }
