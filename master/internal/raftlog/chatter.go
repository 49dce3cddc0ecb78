package raftlog

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// sayAgainAfter is how long a warning that was told once is only counted.
	sayAgainAfter = time.Minute
	// sayingsMax bounds what is remembered. Full: all is forgotten and told once more.
	sayingsMax = 256
)

// saying is one of Raft's warnings about one master.
type saying struct{ message, subject string }

// chatter remembers what Raft has warned of. A master that is away is reported by
// the library at each of its attempts, ten times a second.
type chatter struct {
	mu    sync.Mutex
	quiet bool             // we end: nothing that breaks now is news; guarded by mu
	said  map[saying]*said // guarded by mu
}

type said struct {
	last  time.Time // told
	again uint64    // said since
}

func newChatter() *chatter { return &chatter{said: make(map[saying]*said)} }

// says reports whether a warning is to be told now, and how often it was said since it
// was told last.
func (c *chatter) says(message, subject string) (again uint64, tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, now := saying{message, subject}, time.Now()
	known := c.said[key]
	if known == nil {
		if len(c.said) >= sayingsMax {
			clear(c.said)
		}
		c.said[key] = &said{last: now}
		return 0, true
	}
	known.again++
	if now.Sub(known.last) < sayAgainAfter {
		return 0, false
	}
	again, known.again, known.last = known.again, 0, now
	return again, true
}

// forget makes the next warning about a master news again: it was well meanwhile.
func (c *chatter) forget(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.said {
		if key.subject == subject {
			delete(c.said, key)
		}
	}
}

// hush says that we end, or that we do not.
func (c *chatter) hush(quiet bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = quiet
}

func (c *chatter) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet
}

// subject is the address, or else the ID, of the master that a line is about.
func subject(fields []any) string {
	for i := 0; i+1 < len(fields); i += 2 {
		switch fields[i] {
		case "peer", "target", "server-id", "candidate", "from":
			return plain(fields[i+1])
		}
	}
	return ""
}

func plain(value any) string {
	if server, ok := value.(raft.Server); ok {
		return string(server.Address)
	}
	return fmt.Sprint(value)
}

// isGoodbye knows the line for each connection that another master has closed.
func isGoodbye(message string, fields []any) bool {
	if message != "failed to decode incoming command" {
		return false
	}
	for _, field := range fields {
		err, ok := field.(error)
		if ok && (errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "connection reset")) {
			return true
		}
	}
	return false
}
