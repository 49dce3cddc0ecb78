package admission_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/registry"
)

// TestAgents: an agent from another cluster, or with a wrong first call, gets an error of the right kind.
func TestAgents(t *testing.T) {
	state := registry.New()
	state.Cluster = "cluster-1"
	judge := admission.Judge{Registry: state, Term: api.Term{Number: 7}}
	good := protocol.RegisterAgent{Cluster: "cluster-1", Nonce: "n", Agent: api.Agent{Hostname: "h1", Resources: api.Scalars(1, 1024)}}
	elsewhere, again, nobody := good, good, good
	elsewhere.Cluster, again.Agent.ID, nobody.Nonce = "cluster-2", "agent-1", ""
	newer := protocol.ReregisterAgent{Term: api.Term{Number: 8}, Nonce: "n", Agent: api.Agent{ID: "agent-1"}}
	for what, c := range map[string]struct {
		call protocol.AgentCall
		kind api.Kind
	}{
		"a new agent":          {good, 0},
		"of another cluster":   {elsewhere, api.Denied},
		"registers with an ID": {again, api.Invalid},
		"without a nonce":      {nobody, api.Invalid},
		"knows a newer leader": {newer, api.Unavailable},
	} {
		greeting, first := admission.GreetingOf(c.call)
		if kind, err := judge.Agent(greeting); !first || kind != c.kind || (err == nil) != (c.kind == 0) {
			t.Errorf("%s: %v, %v", what, kind, err)
		}
	}
	if _, first := admission.GreetingOf(protocol.AgentHeartbeat{}); first {
		t.Error("a heartbeat begins a session")
	}
}
