package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Receipts are what makes a launch known as a leader's: the key by which leaders sign it, and since when they do (R40).
type Receipts struct {
	Key   []byte    // empty: launches carry none yet; never edited
	Since api.Term  // launches of earlier terms carry none, and of this one those before the key was committed
	Began time.Time // agents that were admitted later have no launches of before
}

// BeginReceipts gives the key, once.
type BeginReceipts struct {
	Key   []byte
	Since api.Term
}

func (change BeginReceipts) apply(s *State, at time.Time) Result {
	const op = "receipts.begin"
	switch {
	case len(change.Key) != ReceiptKeyBytes:
		return refuse(op, api.Invalid, "", "the key has %d bytes; it must have %d", len(change.Key), ReceiptKeyBytes)
	case len(s.Receipts.Key) > 0:
		return refuse(op, api.Exists, "", "launches carry receipts already")
	}
	s.Receipts = Receipts{Key: change.Key, Since: change.Since, Began: at}
	return Result{}
}
