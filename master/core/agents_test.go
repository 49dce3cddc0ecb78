package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

func herdOf(count int) *agents {
	r := &agents{base: &base{config: Config{TombstoneAfter: 30 * time.Second}, agentByID: make(map[api.AgentID]*agent)}}
	for i := range count {
		r.agentByID[api.AgentID(fmt.Sprint(i))] = &agent{}
	}
	return r
}

// TestReturnWithin: few agents come back at once, many in turn, all before they are taken for dead.
func TestReturnWithin(t *testing.T) {
	for agents, want := range map[int]time.Duration{
		0: 0, spreadFromAgents - 1: 0, spreadFromAgents: 500 * time.Millisecond, 1234: 1200 * time.Millisecond, 5000: 5 * time.Second, 40000: 10 * time.Second,
	} {
		if got := herdOf(agents).spreadOfReturns(); got != want {
			t.Errorf("%d agents return within %v, not %v", agents, got, want)
		}
	}
}

// TestReturnNews: an agent is told once, and again when it has changed.
func TestReturnNews(t *testing.T) {
	a := &agent{}
	for _, test := range []struct {
		agents int
		want   time.Duration
	}{{10, 0}, {600, 600 * time.Millisecond}, {600, 0}, {650, 0}, {700, 700 * time.Millisecond}, {10, 0}, {700, 0}} {
		if got := herdOf(test.agents).spreadIfChanged(a); got != test.want {
			t.Errorf("%d agents: the news is %v, not %v", test.agents, got, test.want)
		}
	}
}
