package trust

import (
	"crypto/x509"
	"time"
)

// Anchors are the certificates by which the members of a cluster verify each other. These are the authority's own and,
// after a rotation and for as long as the former authority counts, two cross-certificates that lead from one to the
// other.
type Anchors struct {
	Root *x509.Certificate
	// Crossed is the authority's key, signed by the former authority. It is shown to those who know only the former
	// one. nil: there is none.
	Crossed *x509.Certificate
	// Former is the former authority's key, signed by the authority. With it, certificates of the former one are
	// verified. nil: there is none.
	Former *x509.Certificate
}

// List returns the anchors that there are, the root first, as messages and files have them.
func (a Anchors) List() []*x509.Certificate {
	list := []*x509.Certificate{a.Root}
	for _, crossing := range []*x509.Certificate{a.Crossed, a.Former} {
		if crossing != nil {
			list = append(list, crossing)
		}
	}
	return list
}

// anchorsOf reads what List returned.
func anchorsOf(list []*x509.Certificate) Anchors {
	var a Anchors
	for i, certificate := range list {
		switch {
		case i == 0:
			a.Root = certificate
		case DigestOf(certificate) == DigestOf(a.Root):
			a.Crossed = certificate
		default:
			a.Former = certificate
		}
	}
	return a
}

// FormerEnds returns until when the former authority counts; the zero time if there is none.
func (a Anchors) FormerEnds() time.Time {
	if a.Former == nil {
		return time.Time{}
	}
	return a.Former.NotAfter
}

// Counts says whether the digest is that of the authority, or of the former one while that counts.
func (a Anchors) Counts(digest Digest, now time.Time) bool {
	return digest == DigestOf(a.Root) || a.Former != nil && counts(a.Former, now) && digest == DigestOf(a.Former)
}

// hasSigned says whether the authority has signed the certificate of a member, or the former one while that counts. The
// certificate itself may have expired.
func (a Anchors) hasSigned(leaf *x509.Certificate, now time.Time) bool {
	if leaf.IsCA {
		return false
	}
	return leaf.CheckSignatureFrom(a.Root) == nil || a.Former != nil && counts(a.Former, now) && leaf.CheckSignatureFrom(a.Former) == nil
}

// crossings returns the certificates that may lie between a root and the certificate that is shown.
func (a Anchors) crossings(shown []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	if a.Former != nil {
		pool.AddCert(a.Former)
	}
	for _, certificate := range shown[1:min(len(shown), shownMax)] {
		pool.AddCert(certificate)
	}
	return pool
}

// shownMax is how many of the certificates that a peer shows are looked at.
const shownMax = 4

// poolOf returns an authority's own certificate as the trusted root, without its limit on the length of a chain.
func poolOf(root *x509.Certificate) *x509.CertPool {
	trusted := *root
	trusted.MaxPathLen, trusted.MaxPathLenZero = -1, false
	pool := x509.NewCertPool()
	pool.AddCert(&trusted)
	return pool
}
