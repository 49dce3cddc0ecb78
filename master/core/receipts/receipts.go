// Package receipts distinguishes launches that a leader has made from all others (R40).
//
// A receipt says: a leader that has the cluster's key has launched this task on this agent. Agents keep it with the
// task and show it when they report. It says nothing of what became of the task, and need not be kept secret; only the
// key must be.
package receipts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/tenderhq/tender/api"
)

// Bytes is the size of a receipt, in bytes.
const Bytes = 16

// Launch holds what a receipt is computed from.
type Launch struct {
	Framework api.FrameworkID
	Task      api.TaskID
	Agent     api.AgentID
	Term      api.Term
	Number    uint64 // the number of the launch within the term
	// Secrets are the secrets that the task names. They are signed, so that an agent can't use the receipt for others.
	Secrets []api.Secret
}

// Sign makes the receipt of a launch.
func Sign(key []byte, launch Launch) string {
	mac := hmac.New(sha256.New, key)
	text := appendNames(nil, string(launch.Framework), string(launch.Task), string(launch.Agent))
	text = binary.BigEndian.AppendUint64(text, launch.Term.Epoch)
	text = binary.BigEndian.AppendUint64(text, launch.Term.Number)
	text = binary.BigEndian.AppendUint64(text, launch.Number)
	for _, secret := range launch.Secrets {
		text = appendNames(text, string(secret.ID), secret.Env, secret.File)
	}
	mac.Write(text)
	return string(mac.Sum(nil)[:Bytes])
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
