package registry

import (
	"encoding/hex"
	"time"

	"github.com/tenderhq/tender/api"
)

// Authority is the authority that signs certificates, once the first one was replaced. Until then it is the one in the
// cluster's key.
type Authority struct {
	Digest     string    // SHA-256 of its public key, in hex; "": it was never replaced
	Sealed     []byte    // the whole authority, encrypted with the cluster's key; never edited
	Began      time.Time // when it took over
	FormerEnds time.Time // until when the one before is valid as well
}

// RotateAuthority replaces the authority, if the one that the proposer saw still signs. The same one again
// changes nothing.
type RotateAuthority struct {
	Saw        string // digest of the authority that it follows; "": the first one
	Digest     string
	Sealed     []byte
	FormerEnds time.Time
}

func (change RotateAuthority) apply(s *State, at time.Time) Result {
	const op = "authority.rotate"
	digest, err := hex.DecodeString(change.Digest)
	switch {
	case err != nil || len(digest) != AuthorityDigestBytes || len(change.Sealed) == 0 || len(change.Sealed) > AuthorityBytesMax:
		return refuse(op, api.Invalid, "", "the digest or the authority itself is missing, or too long")
	case change.Digest == s.Authority.Digest:
		return Result{}
	case at.Before(s.Authority.FormerEnds):
		return refuse(op, api.Exists, s.Authority.Digest, "the authority was changed at %s, and the one before counts until %s; two at a time are enough",
			s.Authority.Began.Format(time.RFC3339), s.Authority.FormerEnds.Format(time.RFC3339))
	case !at.Before(change.FormerEnds):
		return refuse(op, api.Invalid, "", "the authority of now would end at %s, which is over", change.FormerEnds.Format(time.RFC3339))
	}
	s.Authority = Authority{Digest: change.Digest, Sealed: change.Sealed, Began: at, FormerEnds: change.FormerEnds}
	return Result{}
}

func (change RotateAuthority) saw() sight {
	return sawAuthority{change.Saw, change.Digest}
}

func (RotateAuthority) onlyKept() {}
