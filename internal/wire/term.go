package wire

import (
	"errors"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TermToProto makes the message of a term; that of the zero term is nil.
func TermToProto(term api.Term) *apiv1.Term {
	if term == (api.Term{}) {
		return nil
	}
	return &apiv1.Term{Epoch: term.Epoch, Number: term.Number}
}

// TermFromProto reads a term; absent is the zero term.
func TermFromProto(term *apiv1.Term) api.Term {
	return api.Term{Epoch: term.GetEpoch(), Number: term.GetNumber()}
}

// checkTerm refuses a batch of a master without a term: nobody could tell whether to
// obey it (R1).
func checkTerm(op string, term api.Term) error {
	if term == (api.Term{}) {
		return api.E(op, api.Invalid, "", errors.New("a master's message carries no term"))
	}
	return nil
}
