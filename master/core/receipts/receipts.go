// Package receipts distinguishes launches that a leader has made from all others (R40).
//
// A receipt says: a leader that has the cluster's key has launched this task on this agent, or has had it start this
// executor, with these resources. Agents keep it with the task or executor and show it when they report. It says nothing
// of what became of either, and need not be kept secret; only the key must be.
package receipts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/tenderhq/tender/api"
)

// Bytes is the size of a receipt, in bytes.
const Bytes = 16

// Launch holds what a receipt is computed from. All of it is signed, so that an agent can't use the receipt for anything
// else, such as more resources or other secrets.
type Launch struct {
	Framework api.FrameworkID
	// Task is the task that is launched; "" in the receipt of the executor that the launch starts.
	Task      api.TaskID
	Executor  api.ExecutorID
	Agent     api.AgentID
	Term      api.Term
	Number    uint64 // the number of the launch within the term
	Role      api.Role
	Resources api.Resources // of the task, or of the executor
	Secrets   []api.Secret  // that the task names; none in the receipt of an executor
	Owner     string        // of the task
}

// Sign makes the receipt of a launch.
func Sign(key []byte, launch Launch) string {
	mac := hmac.New(sha256.New, key)
	text := make([]byte, 0, 256)
	text = appendNames(text, string(launch.Framework), string(launch.Task), string(launch.Executor), string(launch.Agent), string(launch.Role), launch.Owner)
	text = binary.BigEndian.AppendUint64(text, launch.Term.Epoch)
	text = binary.BigEndian.AppendUint64(text, launch.Term.Number)
	text = binary.BigEndian.AppendUint64(text, launch.Number)
	text = appendResources(text, launch.Resources)
	for _, secret := range launch.Secrets {
		text = appendNames(text, string(secret.ID), secret.Env, secret.File)
	}
	mac.Write(text)
	return string(mac.Sum(nil)[:Bytes])
}

// appendResources encodes resources so that two different bundles never give the same bytes.
func appendResources(text []byte, resources api.Resources) []byte {
	items := resources.Items()
	text = binary.AppendUvarint(text, uint64(len(items)))
	for i := range items {
		item := &items[i]
		text = appendNames(text, item.Name, string(item.Reserved), string(item.Volume), item.Tag)
		text = append(text, bit(item.Dynamic)|bit(item.Revocable)<<1)
		text = binary.AppendVarint(text, int64(item.Scalar))
		text = binary.AppendUvarint(text, uint64(len(item.Ranges)))
		for _, r := range item.Ranges {
			text = binary.AppendUvarint(binary.AppendUvarint(text, r.Begin), r.End)
		}
		text = binary.AppendUvarint(text, uint64(len(item.Set)))
		text = appendNames(text, item.Set...)
	}
	return text
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// appendNames encodes names so that two different lists of names never give the same bytes.
func appendNames(text []byte, names ...string) []byte {
	for _, name := range names {
		text = binary.AppendUvarint(text, uint64(len(name)))
		text = append(text, name...)
	}
	return text
}

// True reports whether the receipt is that of the launch.
func True(key []byte, launch Launch, receipt string) bool {
	return hmac.Equal([]byte(receipt), []byte(Sign(key, launch)))
}

// Mark returns a fingerprint of a key, which a registry may store to recognize the key. It reveals nothing about the
// key.
func Mark(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("tender: the key of receipts"))
	return mac.Sum(nil)
}
