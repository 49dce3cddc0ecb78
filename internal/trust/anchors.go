package trust

import (
	"crypto/x509"
	"time"
)

// Anchors are the certificates by which the members of a cluster know each other: the authority's own, and, after a rotation,
// for as long as the former authority counts, two that lead from the one to the other.
type Anchors struct {
	Root *x509.Certificate
	// Crossed is the authority's key, signed by the former one: it is shown to who knows only that. nil: there is none.
	Crossed *x509.Certificate
	// Former is the former one's key, signed by the authority: by it one knows who shows a certificate of the former one. nil:
	// there is none.
	Former *x509.Certificate
}

// List has those that there are, the root first, as messages and files have them.
func (a Anchors) List() []*x509.Certificate {
	list := []*x509.Certificate{a.Root}
	for _, crossing := range []*x509.Certificate{a.Crossed, a.Former} {
		if crossing != nil {
			list = append(list, crossing)
		}
	}
	return list
}

// anchorsOf reads a list.
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

// FormerEnds is until when the former authority counts; the zero time if there is none.
func (a Anchors) FormerEnds() time.Time {
	if a.Former == nil {
		return time.Time{}
	}
	return a.Former.NotAfter
}

// Counts says whether the digest is the authority's, or the former one's while that counts.
func (a Anchors) Counts(digest Digest, now time.Time) bool {
	return digest == DigestOf(a.Root) || a.Former != nil && counts(a.Former, now) && digest == DigestOf(a.Former)
}

// hasSigned says whether the certificate of a member is signed by the authority, or by the former one while that counts; it
// may have ended itself.
func (a Anchors) hasSigned(leaf *x509.Certificate, now time.Time) bool {
	if leaf.IsCA {
		return false
	}
	return leaf.CheckSignatureFrom(a.Root) == nil || a.Former != nil && counts(a.Former, now) && leaf.CheckSignatureFrom(a.Former) == nil
}

// roots are the authority's own certificate as what is trusted unseen: how long a way from it may be is not its matter.
func (a Anchors) roots() *x509.CertPool { return poolOf(a.Root) }

// crossings are what may lie between a root and who shows its certificate.
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

// shownMax bounds the certificates that are looked at of those that somebody shows.
const shownMax = 4

func poolOf(root *x509.Certificate) *x509.CertPool {
	trusted := *root
	trusted.MaxPathLen, trusted.MaxPathLenZero = -1, false
	pool := x509.NewCertPool()
	pool.AddCert(&trusted)
	return pool
}
