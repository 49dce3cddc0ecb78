package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

func herdOf(count int) *agents {
	config := Config{HeartbeatInterval: time.Second, SessionTimeout: 5 * time.Second, TombstoneAfter: 30 * time.Second}
	r := &agents{base: &base{config: config, agentByID: make(map[api.AgentID]*agent)}}
	for i := range count {
		r.agentByID[api.AgentID(fmt.Sprint(i))] = &agent{}
	}
	return r
}

// TestPace: few agents come back at once, many in turn, all before they are taken for dead. Many send fewer heartbeats
// than few, and may be silent for longer (R92).
func TestPace(t *testing.T) {
	for agents, want := range map[int]pace{
		0:                    {time.Second, 5 * time.Second, 0},
		spreadFromAgents - 1: {time.Second, 5 * time.Second, 0},
		spreadFromAgents:     {time.Second, 5 * time.Second, 100 * time.Millisecond},
		5000:                 {time.Second, 5 * time.Second, 1200 * time.Millisecond},
		10_000:               {2500 * time.Millisecond, 12500 * time.Millisecond, 2500 * time.Millisecond},
		50_000:               {10 * time.Second, 50 * time.Second, 10 * time.Second},
	} {
		if got := herdOf(agents).pace(); got != want {
			t.Errorf("%d agents: %v, want %v", agents, got, want)
		}
	}
	rare := herdOf(5000)
	rare.config.HeartbeatInterval = 4 * time.Second
	if got, want := rare.pace(), (pace{4 * time.Second, 5 * time.Second, 1200 * time.Millisecond}); got != want {
		t.Errorf("who asks for rare heartbeats has %v, want %v", got, want)
	}
}

// TestPaceIsTold: an agent is told once, and again when the cluster has grown.
func TestPaceIsTold(t *testing.T) {
	const ms = time.Millisecond
	told := herdOf(10).pace()
	for _, test := range []struct {
		agents int
		want   pace
	}{{600, pace{within: 100 * ms}}, {600, pace{}}, {650, pace{}}, {10, pace{}}, {800, pace{within: 200 * ms}}, {6000, pace{1500 * ms, 7500 * ms, 1500 * ms}}, {6000, pace{}}} {
		if got := told.grown(herdOf(test.agents).pace()); got != test.want {
			t.Errorf("%d agents: the news is %v, not %v", test.agents, got, test.want)
		}
	}
}
