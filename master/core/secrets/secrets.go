// Package secrets says which secrets of the registry a task may be given (R48). It never sees a value: in the registry
// values are sealed.
package secrets

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// Unkept is the reason why a cluster stores no secrets.
type Unkept string

// The reasons. Kept means that the cluster stores secrets.
const (
	Kept   Unkept = ""
	NoKey  Unkept = "it runs without certificates (--insecure), so there is no key to seal them with, and nobody can be told from another"
	NotYet Unkept = "its leader has just begun, and its launches carry no receipts yet; try again"
)

// Forbidden says why a task that runs in the role may not be given one of the secrets that it names, or "". The role
// must be the secret's or one above it: a framework that runs in several roles for several teams can't give the secrets
// of one to the tasks of another. The answer does not reveal whether the secret exists.
func Forbidden(role api.Role, named []api.Secret) string {
	for _, secret := range named {
		if role == "" || !secret.ID.Role().Within(role) {
			return fmt.Sprintf("the task may not use secret %s: it runs in role %s, and must run in role %s or in one above it",
				secret.ID, role, secret.ID.Role())
		}
	}
	return ""
}

// Missing says why a task can't be given all secrets that it names, or "".
func Missing(state *registry.State, why Unkept, named []api.Secret) string {
	if why != Kept {
		return "it names secrets, and this cluster keeps none: " + string(why)
	}
	bytes, counted := 0, make(map[api.SecretID]bool, len(named))
	for _, secret := range named {
		kept, is := state.Secrets[secret.ID]
		if !is {
			return fmt.Sprintf("there is no secret %s (any more); an operator sets it: tender secret set %s", secret.ID, secret.ID)
		}
		if !counted[secret.ID] {
			counted[secret.ID] = true
			bytes += len(kept.Sealed)
		}
	}
	if most := api.TaskSecretsBytesMax; bytes > most {
		return fmt.Sprintf("its secrets have some %d bytes together, at most %d are allowed", bytes, most)
	}
	return ""
}

// Withheld says why a task that was launched and is about to start may no longer be given its secrets, or "".
func Withheld(state *registry.State, why Unkept, info api.Framework, role api.Role, named []api.Secret) string {
	if !state.Principals[info.Principal].Revoked.IsZero() {
		return fmt.Sprintf("principal %s, whose framework it is of, was revoked", info.Principal)
	}
	if forbidden := Forbidden(role, named); forbidden != "" {
		return forbidden
	}
	return Missing(state, why, named)
}

// Sealed is a secret as the registry stores it, encrypted.
type Sealed struct {
	ID   api.SecretID
	Text []byte
}

// Take returns the secrets that a task names, each once. The caller has checked that none is missing.
func Take(state *registry.State, named []api.Secret) []Sealed {
	var all []Sealed
	taken := make(map[api.SecretID]bool, len(named))
	for _, secret := range named {
		if !taken[secret.ID] {
			taken[secret.ID] = true
			all = append(all, Sealed{secret.ID, state.Secrets[secret.ID].Sealed})
		}
	}
	return all
}
