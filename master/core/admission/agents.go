package admission

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Greeting is the first call of an agent's stream, RegisterAgent or ReregisterAgent, in one form.
type Greeting struct {
	Cluster api.ClusterID
	Term    api.Term
	Agent   api.Agent
	Nonce   api.Nonce
	Boot    string
	First   bool // the call is RegisterAgent: the agent has no ID yet
	Version string
}

// GreetingOf converts the first call of a stream; it returns false when that is neither of the two calls.
func GreetingOf(call protocol.AgentCall) (Greeting, bool) {
	switch c := call.(type) {
	case protocol.RegisterAgent:
		return Greeting{c.Cluster, api.Term{}, c.Agent, c.Nonce, c.BootID, true, c.Version}, true
	case protocol.ReregisterAgent:
		return Greeting{c.Cluster, c.Term, c.Agent, c.Nonce, c.BootID, false, c.Version}, true
	default:
		return Greeting{}, false
	}
}

// Agent checks what an agent says about itself. It returns the kind of the refusal and its reason, or 0 and nil.
func (j Judge) Agent(g Greeting) (api.Kind, error) {
	if err := protocol.Neighbours(j.Version, g.Version); err != nil {
		return api.Unsupported, err
	}
	who := peer{name: "agent", wrong: "a wrong master address or data folder", cure: "stop the agent and run tender agent reset-term"}
	if kind, err := j.seen(who, g.Cluster, g.Term); err != nil {
		return kind, err
	}
	switch {
	case g.Nonce == "":
		return api.Invalid, errors.New("the agent names no nonce")
	case g.First != (g.Agent.ID == ""):
		return api.Invalid, errors.New("an agent registers without an ID and comes back with one")
	}
	if err := g.Agent.Resources.Check(); err != nil {
		return api.Invalid, fmt.Errorf("its resources: %w", err)
	}
	if err := errors.Join(g.Agent.CheckSize(), api.CheckText("the boot ID", g.Boot)); err != nil {
		return api.Limit, err
	}
	return 0, nil
}

// SameAgent reports whether two descriptions of an agent are equal.
func SameAgent(a, b api.Agent) bool {
	return a.ID == b.ID && a.Hostname == b.Hostname && a.Resources.Equal(b.Resources) && maps.Equal(a.Attributes, b.Attributes) &&
		a.Region == b.Region && a.Zone == b.Zone && a.Address == b.Address && a.Version == b.Version
}
