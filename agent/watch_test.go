package agent

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestAStuckLoopEndsItsSession (R36): after three session timeouts, as the leader told them, the log says where the
// loop is stuck, the session ends, and no other begins. When the loop runs again, the agent comes back.
func TestAStuckLoopEndsItsSession(t *testing.T) {
	for _, timeout := range []time.Duration{5 * time.Second, 20 * time.Second} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				m := newMemory(t)
				m.master.patience = timeout
				m.log = zerolog.New(zerolog.SyncWriter(&said))
				agent := m.run()
				await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
				<-time.After(time.Minute) // the watch now knows the timeout
				hold, began := make(chan struct{}), time.Now()
				go agent.inbox.ask(t.Context(), func(*core.Core) { <-hold })
				for agent.leader.shown.Load() != nil {
					<-time.After(100 * time.Millisecond)
				}
				if took := time.Since(began); took < 3*timeout || took > 4*timeout {
					t.Errorf("the session ended after %v", took)
				}
				m.master.forget()
				<-time.After(time.Minute)
				if agent.leader.shown.Load() != nil || !agent.round.Stuck() {
					t.Error("a stuck agent has a session")
				}
				if text := said.String(); !strings.Contains(text, "the agent's loop is stuck") || !strings.Contains(text, "watch_test.go") {
					t.Errorf("the log does not have the evidence: %s", text)
				}
				close(hold)
				await(m.master, "reregistration", func(protocol.ReregisterAgent) bool { return true })
			})
		})
	}
}
