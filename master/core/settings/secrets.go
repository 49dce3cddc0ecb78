package settings

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/registry"
)

// Secret sets the value of a secret. The value is sealed already.
type Secret struct {
	ID     api.SecretID
	Sealed []byte
}

// Ask refuses it in a cluster that stores no secrets.
func (s Secret) Ask(of Leader, by rights.Scope) (Question, *api.Error) {
	const op = "secret.set"
	if err := maySet(op, "set-secret", s.ID, by); err != nil {
		return Question{}, err
	}
	if of.Unkept != secrets.Kept {
		return Question{}, api.E(op, api.Unsupported, s.ID, fmt.Errorf("this cluster keeps no secrets: %s", of.Unkept))
	}
	change := registry.SetSecret{ID: s.ID, Sealed: s.Sealed, By: by.Who}
	return Question{op, string(s.ID), change, fmt.Sprintf("secret %s is set; tasks that start from now on get it", s.ID)}, nil
}

// NoSecret removes a secret.
type NoSecret struct{ ID api.SecretID }

// Ask does not require that the cluster can store secrets: one that exists may always be removed.
func (s NoSecret) Ask(of Leader, by rights.Scope) (Question, *api.Error) {
	const op = "secret.rm"
	if err := maySet(op, "remove-secret", s.ID, by); err != nil {
		return Question{}, err
	}
	return Question{op, string(s.ID), registry.RemoveSecret{ID: s.ID, Saw: of.Registry.Secrets[s.ID].Set}, fmt.Sprintf("secret %s is removed; tasks that have it keep it", s.ID)}, nil
}

// maySet says why the caller may not do the action to the secret.
func maySet(op, action string, id api.SecretID, by rights.Scope) *api.Error {
	object := rights.Object{Role: id.Role()}
	switch err := id.Check(); {
	case err != nil:
		return api.E(op, api.Invalid, "", err)
	case !by.Covers(object):
		return rights.RefuseAction(action, by.Who, object)
	}
	return nil
}
