package raftlog

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// TestChatter: what Raft says ten times a second is told once per master, then counted.
func TestChatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := newRaftLogger(zerolog.New(&out).Level(zerolog.InfoLevel), newChatter())
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		}
		broken := errors.New("connection refused")
		for range 900 { // a minute and a half
			logger.Error("failed to heartbeat to", "peer", raft.ServerAddress("h2:5070"), "error", broken)
			logger.Error("failed to appendEntries to", "peer", raft.Server{ID: "m3", Address: "h3:5070"}, "error", broken)
			advance(100 * time.Millisecond)
		}
		got := lines()
		if len(got) != 4 || !strings.Contains(got[0], "h2:5070") || !strings.Contains(got[2], `"again":"600"`) && !strings.Contains(got[2], `"again":600`) {
			t.Errorf("told:\n%s", strings.Join(got, "\n"))
		}
		logger.chatter.forget("h3:5070")
		logger.Error("failed to heartbeat to", "peer", raft.ServerAddress("h2:5070"), "error", broken)
		logger.Error("failed to appendEntries to", "peer", raft.Server{ID: "m3", Address: "h3:5070"}, "error", broken)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "h3:5070") {
			t.Errorf("after h3 was well again: %q", got)
		}
		logger.Error("failed to decode incoming command", "error", &net.OpError{Op: "read", Err: net.ErrClosed})
		logger.chatter.setQuiet(true)
		logger.Warn("failed to contact quorum of nodes, stepping down")
		if out.Len() > 0 {
			t.Errorf("an end was not silent: %s", &out)
		}
	})
}
