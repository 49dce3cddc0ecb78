package registry

import (
	"bytes"
	"time"

	"github.com/tenderhq/tender/api"
)

// Receipts says which launches carry receipts, which prove that a leader made them (R40). Leaders sign with the
// cluster's key, which the registry does not hold.
type Receipts struct {
	Mark []byte // fingerprint of the key; empty: launches carry no receipts yet; never edited
	// Since is the first term with receipts. Launches of this term carry none if they were made before the key was
	// committed.
	Since api.Term
	Began time.Time // agents that were admitted later have no launches from before
}

// BeginReceipts says from which term on launches carry receipts signed with a key. Without a mark it says that they
// carry none any more. The leader proposes it when it has another key than the one before, or none.
type BeginReceipts struct {
	Mark  []byte
	Since api.Term
}

func (change BeginReceipts) apply(s *State, at time.Time) Result {
	const op = "receipts.begin"
	switch {
	case len(change.Mark) != ReceiptMarkBytes && len(change.Mark) != 0:
		return refuse(op, api.Invalid, "", "the mark of the key has %d bytes; it must have %d", len(change.Mark), ReceiptMarkBytes)
	case bytes.Equal(change.Mark, s.Receipts.Mark):
		return refuse(op, api.Exists, "", "that is so already")
	case len(change.Mark) == 0:
		s.Receipts = Receipts{}
		return Result{}
	}
	s.Receipts = Receipts{Mark: change.Mark, Since: change.Since, Began: at}
	return Result{}
}

func (BeginReceipts) saw() sight {
	return blind("it is the key of the leader that proposes it, and no later leader decides before it is applied")
}
