// Package secrets holds the values of secrets on their way from the leader to a task: in memory, and as files of a
// folder that is in memory. It writes them to no disk and to no log.
package secrets

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// BoxBytesMax bounds the values that wait for the start of their tasks. A task whose values would exceed it is FAILED.
const BoxBytesMax = 64 << 20

// Box holds the values for tasks that are about to start. The zero value is empty. It is not safe for concurrent use.
type Box struct {
	tasks map[api.TaskRef]map[api.SecretID]protocol.Hidden
	bytes int
}

// Take keeps the values that the leader has sent. It returns the event without them, as everybody else may see it.
func (b *Box) Take(sent protocol.TaskSecrets) protocol.TaskSecrets {
	values := sent.Values
	sent.Values = nil
	if sent.Why != "" {
		return sent
	}
	b.Drop(sent.TaskRef)
	if b.bytes+protocol.SecretsBytes(values) > BoxBytesMax {
		return sent // the task finds that they are not here
	}
	kept := make(map[api.SecretID]protocol.Hidden, len(values))
	for _, one := range values {
		kept[one.ID] = one.Value
	}
	if b.tasks == nil {
		b.tasks = map[api.TaskRef]map[api.SecretID]protocol.Hidden{}
	}
	b.tasks[sent.TaskRef] = kept
	b.bytes += protocol.SecretsBytes(values)
	return sent
}

// Drop forgets the values for a task.
func (b *Box) Drop(task api.TaskRef) {
	for id, value := range b.tasks[task] { // order: irrelevant because it is a sum
		b.bytes -= protocol.SecretsBytes([]protocol.SecretValue{{ID: id, Value: value}})
	}
	delete(b.tasks, task)
}

// Clear forgets everything.
func (b *Box) Clear() { *b = Box{} }

// Variables returns the values of the named secrets that are environment variables, by variable.
func (b *Box) Variables(task api.TaskRef, named []api.Secret) (map[string]protocol.Hidden, error) {
	return b.values(task, named, func(s api.Secret) string { return s.Env })
}

// Files returns the values of the named secrets that are files, by file.
func (b *Box) Files(task api.TaskRef, named []api.Secret) (map[string]protocol.Hidden, error) {
	return b.values(task, named, func(s api.Secret) string { return s.File })
}

func (b *Box) values(task api.TaskRef, named []api.Secret, place func(api.Secret) string) (map[string]protocol.Hidden, error) {
	var found map[string]protocol.Hidden
	for _, secret := range named {
		if place(secret) == "" {
			continue
		}
		value, is := b.tasks[task][secret.ID]
		if !is {
			return nil, fmt.Errorf("the agent has no room for secret %s: it holds %d bytes of secrets for tasks that wait for their start, which is the most",
				secret.ID, b.bytes)
		}
		if found == nil {
			found = map[string]protocol.Hidden{}
		}
		found[place(secret)] = value
	}
	return found, nil
}
