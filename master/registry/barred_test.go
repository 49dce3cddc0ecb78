package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// TestNobodyComesBackByTheNameOfAnAgentThatWasRemoved, as long as a certificate of it may be about; also when it was never
// told its ID.
func TestNobodyComesBackByTheNameOfAnAgentThatWasRemoved(t *testing.T) {
	x := newTokens(t)
	agent := api.Agent{Hostname: "host", Resources: api.Scalars(1, 32)}
	x.wants(allowed, AdmitAgent{Agent: agent, Nonce: "n1"})
	x.wants(allowed, RemoveAgent{ID: "agent-1", Nonce: "n1", Saw: 1})
	x.wants(api.Removed, AdmitAgent{Agent: agent, Nonce: "n1"})
	named := agent
	named.ID = "agent-1"
	x.wants(api.Removed, AdmitAgent{Agent: named, Nonce: "n1"})
	x.wants(allowed, AdmitAgent{Agent: agent, Nonce: "n2"}) // the same machine, as a new one
	x.at = x.at.Add(BarredRemembered + time.Second)
	x.wants(api.Removed, AdmitAgent{Agent: agent, Nonce: "n1"})
	x.wants(allowed, RemoveAgent{ID: "agent-2", Nonce: "n2", Saw: 1})
	if _, kept := x.state.Barred["n1"]; kept || len(x.state.Barred) != 1 {
		t.Errorf("what no certificate can say any more is kept: %v", x.state.Barred)
	}
}

// TestBarredNamesAreBounded: of too many the oldest go.
func TestBarredNamesAreBounded(t *testing.T) {
	x := newTokens(t)
	agent := api.Agent{Hostname: "host", Resources: api.Scalars(1, 32)}
	for i := range 2 {
		x.state.Barred = make(map[api.Nonce]time.Time, BarredMax)
		for n := range BarredMax {
			x.state.Barred[api.Nonce(fmt.Sprintf("n%05d", n))] = x.at.Add(time.Duration(n) * time.Millisecond)
		}
		x.wants(allowed, AdmitAgent{Agent: agent, Nonce: "last"})
		x.wants(allowed, RemoveAgent{ID: api.AgentID(fmt.Sprint("agent-", i+1)), Nonce: "last", Saw: 1})
		_, first := x.state.Barred["n00000"]
		_, last := x.state.Barred["last"]
		if len(x.state.Barred) >= BarredMax || first || !last {
			t.Errorf("%d names are kept; the first: %v, the last: %v", len(x.state.Barred), first, last)
		}
	}
}
