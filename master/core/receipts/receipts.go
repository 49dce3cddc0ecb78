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

// Bytes is the size of a receipt.
const Bytes = 16

// Launch is what a receipt is of.
type Launch struct {
	Framework api.FrameworkID
	Task      api.TaskID
	Agent     api.AgentID
	Term      api.Term
	Number    uint64 // of the launch within the term
	// Secrets are those that the task names: an agent can't show the receipt for others.
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

// appendNames writes names so that no two lists of them are one text.
func appendNames(text []byte, names ...string) []byte {
	for _, name := range names {
		text = binary.AppendUvarint(text, uint64(len(name)))
		text = append(text, name...)
	}
	return text
}

// True says whether the receipt is that of the launch.
func True(key []byte, launch Launch, receipt string) bool {
	return hmac.Equal([]byte(receipt), []byte(Sign(key, launch)))
}

// Mark is what a registry may remember of a key, to know it again: it tells nothing of the key.
func Mark(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("tender: the key of receipts"))
	return mac.Sum(nil)
}
