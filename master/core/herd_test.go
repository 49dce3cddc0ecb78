package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// TestReturnWithin: few agents come back at once, many in turn, all before they are taken for dead.
func TestReturnWithin(t *testing.T) {
	for agents, want := range map[int]time.Duration{
		0: 0, herdMin - 1: 0, herdMin: 500 * time.Millisecond, 5000: 5 * time.Second, 40000: 10 * time.Second,
	} {
		c := &Core{config: Config{TombstoneAfter: 30 * time.Second}, agents: make(map[api.AgentID]*agent)}
		for i := range agents {
			c.agents[api.AgentID(fmt.Sprint(i))] = &agent{}
		}
		if got := c.returnWithin(); got != want {
			t.Errorf("%d agents return within %v, not %v", agents, got, want)
		}
	}
}
