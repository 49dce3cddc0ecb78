package raftlog

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

const (
	// sayAgainAfter is for how long a warning that was logged is only counted.
	sayAgainAfter = time.Minute
	// sayingsMax bounds the warnings that are remembered. When there are more, all are forgotten, and logged once more.
	sayingsMax = 256
)

// saying identifies a warning of Raft about one master.
type saying struct{ message, subject string }

// chatter remembers what Raft has warned of, because while a master is away the library repeats its warning at each of
// its attempts, ten times a second.
type chatter struct {
	mu    sync.Mutex
	quiet bool             // this master is ending, so nothing that breaks now is news; guarded by mu
	said  map[saying]*said // guarded by mu
}

type said struct {
	last  time.Time // when it was last logged
	again uint64    // how often it was repeated since then
}

func newChatter() *chatter { return &chatter{said: make(map[saying]*said)} }

// says reports whether a warning should be logged now, and how often it was repeated since it was logged last.
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

// forget makes the next warning about a master be logged again, because the master was well meanwhile.
func (c *chatter) forget(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.said {
		if key.subject == subject {
			delete(c.said, key)
		}
	}
}

// setQuiet says whether this master is ending. What breaks then is not worth a warning.
func (c *chatter) setQuiet(quiet bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = quiet
}

func (c *chatter) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet
}

// subject returns the address, or otherwise the ID, of the master that a line is about.
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

// isGoodbye recognizes the line about a connection that another master has closed.
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

// raftLogger writes Raft's log lines to our log. Raft's info becomes our debug, because we log elections in our own
// words. What Raft repeats is logged once, then counted. What the library does not use of the interface does nothing.
type raftLogger struct {
	hclog.Logger
	log     zerolog.Logger
	chatter *chatter
	with    []any
}

func newRaftLogger(log zerolog.Logger, chatter *chatter) raftLogger {
	return raftLogger{Logger: hclog.NewNullLogger(), log: log, chatter: chatter}
}

var levels = map[hclog.Level]zerolog.Level{
	hclog.NoLevel: zerolog.DebugLevel,
	hclog.Trace:   zerolog.TraceLevel,
	hclog.Debug:   zerolog.TraceLevel,
	hclog.Info:    zerolog.DebugLevel,
	hclog.Warn:    zerolog.InfoLevel,
	hclog.Error:   zerolog.WarnLevel,
	hclog.Off:     zerolog.Disabled,
}

// Log writes one line with its fields.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	fields := append(append([]any{}, l.with...), args...)
	ours := levels[level]
	if level >= hclog.Warn && (isGoodbye(msg, fields) || l.chatter.isQuiet()) {
		ours = zerolog.DebugLevel
	}
	event := l.log.WithLevel(ours)
	if l.log.GetLevel() > ours || event == nil {
		return
	}
	if level >= hclog.Warn {
		again, tell := l.chatter.says(msg, subject(fields))
		if !tell {
			return
		}
		if again > 0 {
			event = event.Uint64("again", again)
		}
	}
	for i := 0; i+1 < len(fields); i += 2 {
		event = event.Str(fmt.Sprint(fields[i]), plain(fields[i+1]))
	}
	event.Msg("raft: " + msg)
}

func (l raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l raftLogger) With(args ...any) hclog.Logger {
	l.with = append(append([]any{}, l.with...), args...)
	return l
}

func (l raftLogger) Named(string) hclog.Logger { return l }
