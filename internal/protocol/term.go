package protocol

import "github.com/tenderhq/tender/api"

// EpochsMax and TermsMax say how far a term may be ahead of the newest one that its receiver knows. Each restored or
// recovered registry takes one epoch, and each election one term. If a wrong master named a term that no true leader
// ever reaches, everybody who accepted it would obey that master for ever (R1).
const (
	EpochsMax = 1000
	TermsMax  = 1 << 32
)

// FarAhead says whether a term is so far ahead that it can't be true. A receiver that knows no term accepts any.
func FarAhead(known, next api.Term) bool {
	switch {
	case known == api.Term{} || next.Before(known):
		return false
	case next.Epoch == known.Epoch:
		return next.Number-known.Number > TermsMax
	}
	return next.Epoch-known.Epoch > EpochsMax
}
