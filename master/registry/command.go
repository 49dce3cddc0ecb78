package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Command is one change with its identity: the same (Client, Counter) proposed again
// is not applied again but answered with the same result (R17). At is the leader's
// clock when it was proposed; Apply has no other.
type Command struct {
	Client  string
	Counter uint64
	At      time.Time
	Change  Change
}

// Change is one of the types that have apply: each stands with its noun.
//
//sumtype:decl
type Change interface {
	// apply changes the state, or returns why it can't. It depends on nothing but the state and the command.
	apply(state *State, at time.Time) Result
}

// OnlyKept is a change of which nothing follows for the leader but that the registry keeps it.
//
//sumtype:decl
type OnlyKept interface {
	Change
	onlyKept()
}

// Result is what a command came to: a refusal, or what it minted.
type Result struct {
	Err       *api.Error // nil: done
	Agent     api.AgentID
	Framework api.FrameworkID
	Session   uint64
	Version   uint64
}
