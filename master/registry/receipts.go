package registry

import (
	"bytes"
	"time"

	"github.com/tenderhq/tender/api"
)

// Receipts are what makes a launch known as a leader's (R40). The key by which leaders sign is that of the cluster, which
// the registry does not hold.
type Receipts struct {
	Mark  []byte    // by which the key is known again; empty: launches carry none yet; never edited
	Since api.Term  // launches of earlier terms carry none, and of this one those before the key was committed
	Began time.Time // agents that were admitted later have no launches of before
}

// BeginReceipts says from which term on launches carry receipts by a key, or with no mark that they carry none any more: the
// leader has another key than the one before, or none.
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
