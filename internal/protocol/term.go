package protocol

import "github.com/tenderhq/tender/api"

// EpochsMax and TermsMax are how far a term may be ahead of the newest that its reader knows. Each
// restored or recovered registry is one epoch, each election one term; but a wrong master that once
// named a term which no true leader reaches would own whoever obeyed it for ever (R1).
const (
	EpochsMax = 1000
	TermsMax  = 1 << 32
)

// FarAhead says whether a term is so far ahead that it can't be true. Who knows none takes any.
func FarAhead(known, next api.Term) bool {
	switch {
	case known == api.Term{} || next.Before(known):
		return false
	case next.Epoch == known.Epoch:
		return next.Number-known.Number > TermsMax
	}
	return next.Epoch-known.Epoch > EpochsMax
}
