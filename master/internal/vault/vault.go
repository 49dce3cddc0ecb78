// Package vault seals the values of secrets before a master's loop sees them, and opens them behind it: what is
// proposed, journaled, dumped and snapshotted contains none in the clear (R48).
package vault

import (
	"errors"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/core"
)

// purposeOf returns the purpose for which a secret is sealed. It contains the name, so that the secret can be opened
// only under its own name.
func purposeOf(id api.SecretID) string { return "secret " + string(id) }

// Seal encrypts the value of a secret. It refuses the zero key, because then the cluster has no key.
func Seal(key trust.Key, id api.SecretID, value []byte) ([]byte, error) {
	const op = "secret.set"
	switch {
	case key.IsZero():
		return nil, api.E(op, api.Unsupported, id, errors.New("this cluster runs without certificates (--insecure): "+
			"it has no key to seal secrets with, and can't tell who may have them; begin one that has certificates"))
	case len(value) == 0:
		return nil, api.E(op, api.Invalid, id, errors.New("the value is empty"))
	case len(value) > api.SecretBytesMax:
		return nil, api.E(op, api.Limit, id, fmt.Errorf("the value has %d bytes, at most %d are allowed", len(value), api.SecretBytesMax))
	}
	return key.Seal(purposeOf(id), value), nil
}

// Open decrypts the secrets and returns what the agent is told. A secret that can't be opened was sealed with another
// key, as in a snapshot of another cluster. Then the task gets no secret at all.
func Open(key trust.Key, effect core.SendSecrets) protocol.TaskSecrets {
	event := protocol.TaskSecrets{TaskRef: effect.Task}
	for _, secret := range effect.Secrets {
		value, err := key.Unseal(purposeOf(secret.ID), secret.Text)
		if err != nil {
			return protocol.TaskSecrets{TaskRef: effect.Task, Why: fmt.Sprintf("secret %s can't be opened: %v; set it again", secret.ID, err)}
		}
		event.Values = append(event.Values, protocol.SecretValue{ID: secret.ID, Value: value})
	}
	return event
}
