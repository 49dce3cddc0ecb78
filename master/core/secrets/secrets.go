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
	Kept      Unkept = ""
	NoKey     Unkept = "it runs without certificates (--insecure), so there is no key to seal them with, and nobody can be told from another"
	NotYetAll Unkept = "not all of its masters know them yet; bring them all to one version"
)

// Forbidden says why a task of the framework may not be given one of the secrets that it names, or "". A framework must
// be in the secret's role or in a role above it. The answer does not reveal whether the secret exists.
func Forbidden(info api.Framework, named []api.Secret) string {
	for _, secret := range named {
		if !mayUse(info, secret.ID) {
			return fmt.Sprintf("framework %s may not use secret %s: it is in %v, and must be in role %s or in one above it",
				info.Name, secret.ID, info.Roles, secret.ID.Role())
		}
	}
	return ""
}

func mayUse(info api.Framework, id api.SecretID) bool {
	for _, role := range info.Roles {
		if role != "" && id.Role().Within(role) {
			return true
		}
	}
	return false
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
func Withheld(state *registry.State, why Unkept, info api.Framework, named []api.Secret) string {
	if !state.Principals[info.Principal].Revoked.IsZero() {
		return fmt.Sprintf("principal %s, whose framework it is of, was revoked", info.Principal)
	}
	if forbidden := Forbidden(info, named); forbidden != "" {
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
