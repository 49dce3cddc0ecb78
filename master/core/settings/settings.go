// Package settings has the actions by which operators change only the registry: roles, what principals may, and
// secrets. Each says whether the caller may set it and whether it fits what is there. It knows nothing of the leader
// but its registry.
package settings

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/registry"
)

// Setting is implemented by the action types of this package.
type Setting interface {
	// Ask returns the change to ask the registry for, on behalf of a caller with this scope, or why it is refused.
	Ask(of Leader, by rights.Scope) (Question, *api.Error)
}

// Leader is what a setting is checked against.
type Leader struct {
	Registry *registry.State
	Unkept   secrets.Unkept // why the cluster stores no secrets
}

// Question is a change to ask the registry for.
type Question struct {
	Op, Subject string // used in errors
	Change      registry.Change
	Done        string // a sentence for the caller, when the change is done
}
