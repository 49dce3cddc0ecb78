package registry

import (
	"maps"
	"time"

	"github.com/tenderhq/tender/api"
)

// Secret is a secret that tasks may be given, encrypted with a key derived from the cluster's.
type Secret struct {
	Sealed []byte
	By     string // who has set it; "" in a cluster that identifies nobody
	Set    time.Time
}

// SetSecret sets the value of a secret. An unknown secret is created.
type SetSecret struct {
	ID     api.SecretID
	Sealed []byte
	By     string
}

func (change SetSecret) apply(s *State, at time.Time) Result {
	const op = "secret.set"
	was, known := s.Secrets[change.ID]
	if err := change.ID.Check(); err != nil {
		return Result{Err: api.E(op, api.Invalid, cut(string(change.ID), SubjectBytesMax), err)}
	}
	switch {
	case len(change.Sealed) == 0:
		return refuse(op, api.Invalid, change.ID, "it has no value")
	case len(change.Sealed) > SealedSecretBytesMax || len(change.By) > api.TextBytesMax:
		return refuse(op, api.Limit, change.ID, "its value has more than %d bytes, or the name of who sets it too many", api.SecretBytesMax)
	case !known && s.secretsOf(change.ID.Role()) >= SecretsPerRoleMax:
		return refuse(op, api.Limit, change.ID, "role %s has %d secrets, which is the most; remove those that nobody needs", change.ID.Role(), SecretsPerRoleMax)
	case s.secretBytes()+secretBytes(change.ID, Secret{Sealed: change.Sealed})-secretBytes(change.ID, was) > SecretsBytesMax:
		return refuse(op, api.Limit, change.ID, "all secrets together would take more than %d bytes of the registry; remove those that nobody needs", SecretsBytesMax)
	}
	s.setSecret(change.ID, Secret{Sealed: change.Sealed, By: change.By, Set: at})
	return Result{}
}

func (SetSecret) saw() sight {
	return blind("the new value is right whatever there was before; who set it last is shown with its time")
}

func (SetSecret) onlyKept() {}

// RemoveSecret forgets a secret, if it was not set anew since Saw.
type RemoveSecret struct {
	ID  api.SecretID
	Saw time.Time // when the value was set that the proposer saw
}

func (change RemoveSecret) apply(s *State, _ time.Time) Result {
	if _, known := s.Secrets[change.ID]; !known {
		return refuse("secret.rm", api.NotFound, cut(string(change.ID), SubjectBytesMax), "there is no such secret")
	}
	s.Secrets = maps.Clone(s.Secrets)
	delete(s.Secrets, change.ID)
	return Result{}
}

func (change RemoveSecret) saw() sight { return sawSecret{change.ID, change.Saw} }

func (RemoveSecret) onlyKept() {}

// setSecret replaces a secret. Changes are rare and the map is small, so it is copied each time and clones share it.
func (s *State) setSecret(id api.SecretID, secret Secret) {
	s.Secrets = copied(s.Secrets)
	s.Secrets[id] = secret
}

// secretsOf counts the secrets of a role, without those of the roles below it.
func (s *State) secretsOf(role api.Role) int {
	count := 0
	for id := range s.Secrets { // order: irrelevant because it counts
		if id.Role() == role {
			count++
		}
	}
	return count
}

func (s *State) secretBytes() int {
	bytes := 0
	for id, secret := range s.Secrets { // order: irrelevant because it is a sum
		bytes += secretBytes(id, secret)
	}
	return bytes
}

// secretBytes returns the bytes of a secret and its name; 0 if there is none.
func secretBytes(id api.SecretID, secret Secret) int {
	if len(secret.Sealed) == 0 {
		return 0
	}
	return len(id) + len(secret.Sealed)
}
