// Package settings has the actions by which operators change only the registry: roles, what principals may, and
// secrets. Each says whether the caller may set it and whether it fits what is there. It knows nothing of the leader
// but its registry.
package settings

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/registry"
)

// Setting is one of the types of this package.
type Setting interface {
	// Ask is what the registry is to be asked for whoever has this scope, or why it is not.
	Ask(of Leader, by rights.Scope) (Question, *api.Error)
}

// Leader is what a setting is judged by.
type Leader struct {
	Registry *registry.State
	Unkept   secrets.Unkept // why the cluster keeps no secrets
}

// Question is what the registry is to be asked.
type Question struct {
	Op, Subject string // of an error
	Change      registry.Change
	Done        string // a sentence for who asks, when it is done
}
