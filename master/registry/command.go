package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Command is one change with its identity. The same (Client, Counter) is not applied twice; the repeated command gets
// the same result (R17). At is the leader's clock when the command was proposed; Apply has no other clock.
type Command struct {
	Client  string
	Counter uint64
	At      time.Time
	Change  Change
}

// Change is implemented by the types that have apply. Each is declared with its noun.
//
//sumtype:decl
type Change interface {
	// saw returns what the proposer saw when he decided, which must still be so when the change is applied, or the
	// reason why he need not look. Each is in seen.go.
	saw() sight
	// apply changes the state, or returns why it can't. It depends on nothing but the state and the command.
	apply(state *State, at time.Time) Result
}

// OnlyKept is a change that the registry stores, and after which the leader's core has nothing to do.
//
//sumtype:decl
type OnlyKept interface {
	Change
	onlyKept()
}

// Result is the result of a command: a refusal, or the numbers that it has given out.
type Result struct {
	Err       *api.Error // nil: done
	Agent     api.AgentID
	Framework api.FrameworkID
	Session   uint64
	Version   uint64
}

// Error returns the refusal as an error; nil if the command is done.
func (r Result) Error() error {
	if r.Err == nil {
		return nil
	}
	return r.Err
}
