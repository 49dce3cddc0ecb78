package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tenderhq/tender/api"
)

// Pass is what a member shows to others and verifies them by. It is never changed: a renewal makes a new one.
type Pass struct {
	key      *ecdsa.PrivateKey
	leaf     *x509.Certificate // nil: it is not signed yet
	anchors  Anchors
	identity Identity
	shown    tls.Certificate
	pool     *x509.CertPool
}

// NewPass makes a random key that is not signed yet. It must be stored before it is shown to an authority, so that
// whoever asks again after a crash asks for the same key.
func NewPass() *Pass {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system's randomness never fails
	}
	return &Pass{key: key}
}

// Request returns the certificate request for an authority.
func (p *Pass) Request() ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, p.key)
}

// Signed returns the pass with the answer of an authority: a certificate, and the anchors in the form of
// [Anchors.List]. It refuses a certificate that is not for this key or not signed by this authority.
func (p *Pass) Signed(leaf *x509.Certificate, anchors []*x509.Certificate) (*Pass, error) {
	const op = "trust.pass"
	if len(anchors) == 0 {
		return nil, api.E(op, api.Invalid, "", errors.New("the certificate comes without that of its authority"))
	}
	if len(leaf.URIs) != 1 {
		return nil, api.E(op, api.Invalid, "", fmt.Errorf("the certificate has %d names; one is right", len(leaf.URIs)))
	}
	identity, err := FromURI(leaf.URIs[0])
	if err != nil {
		return nil, err
	}
	if !p.key.PublicKey.Equal(leaf.PublicKey) {
		return nil, api.E(op, api.Invalid, identity.Name, errors.New("the certificate is for another key"))
	}
	signed := &Pass{key: p.key, leaf: leaf, anchors: anchorsOf(anchors), identity: identity}
	signed.pool = poolOf(signed.anchors.Root)
	if _, err := signed.Identify([]*x509.Certificate{leaf}, leaf.NotBefore.Add(clocksApart)); err != nil {
		return nil, err
	}
	signed.shown = tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: p.key, Leaf: leaf}
	if crossed := signed.anchors.Crossed; crossed != nil {
		signed.shown.Certificate = append(signed.shown.Certificate, crossed.Raw)
	}
	return signed, nil
}

// IsSigned says whether the pass can be shown to others.
func (p *Pass) IsSigned() bool { return p != nil && p.leaf != nil }

// Identity returns the identity in the certificate; nobody as long as the pass is not signed.
func (p *Pass) Identity() Identity {
	if !p.IsSigned() {
		return Identity{}
	}
	return p.identity
}

// Certificate returns the certificate that is shown to others.
func (p *Pass) Certificate() *x509.Certificate { return p.leaf }

// Key returns the private key, for signing in the name of the holder. It leaves neither the process nor its folder.
func (p *Pass) Key() *ecdsa.PrivateKey { return p.key }

// Chain returns what is shown to others, as DER: the certificate, and what leads from it to a former authority.
func (p *Pass) Chain() [][]byte { return p.shown.Certificate }

// Authority returns the digest of the authority that has signed the certificate.
func (p *Pass) Authority() Digest { return DigestOf(p.anchors.Root) }

// Anchors returns the certificates by which others are verified.
func (p *Pass) Anchors() Anchors { return p.anchors }

// Ends returns when the certificate expires.
func (p *Pass) Ends() time.Time { return p.leaf.NotAfter }

// Life returns how long the certificate is valid in all.
func (p *Pass) Life() time.Duration { return p.leaf.NotAfter.Sub(p.leaf.NotBefore) - clocksApart }

// RenewAt returns when half of the life is over.
func (p *Pass) RenewAt() time.Time { return p.leaf.NotAfter.Add(-p.Life() / 2) }

// Identify returns who shows these certificates, of which the first is its own: on a connection, or in another way, as
// [Pass.Chain] has returned them.
func (p *Pass) Identify(shown []*x509.Certificate, now time.Time) (Identity, error) {
	identity, _, err := p.verifyChain(shown, now)
	return identity, err
}

// verifyChain also returns which authority has signed it.
func (p *Pass) verifyChain(shown []*x509.Certificate, now time.Time) (Identity, Digest, error) {
	identity, err := p.named(shown)
	if err != nil {
		return Identity{}, Digest{}, err
	}
	leaf := shown[0]
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: p.pool, Intermediates: p.anchors.crossings(shown), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err == nil && !bytes.Equal(leaf.AuthorityKeyId, chains[0][1].SubjectKeyId) {
		err = errors.New("it names another authority than the one that has signed it") // verifyAgain would believe that name
	}
	if err != nil {
		return Identity{}, Digest{}, api.E(verifyOp, api.Denied, identity.String(), err)
	}
	return identity, DigestOf(chains[0][1]), nil
}

// verifyAgain is verifyChain for what was shown when a session began that is being resumed. The signatures were
// verified then, by us or by another owner of the session's ticket key. They are not verified again, because that is
// most of the cost. The authority and the certificate must still count. If it returns false, verifyChain must be
// called.
func (p *Pass) verifyAgain(shown []*x509.Certificate, now time.Time) (Identity, Digest, bool) {
	identity, err := p.named(shown)
	if err != nil {
		return Identity{}, Digest{}, false
	}
	leaf := shown[0]
	for _, signer := range []*x509.Certificate{p.anchors.Root, p.anchors.Former} {
		if signer != nil && len(leaf.AuthorityKeyId) > 0 && bytes.Equal(leaf.AuthorityKeyId, signer.SubjectKeyId) {
			return identity, DigestOf(signer), counts(leaf, now) && counts(signer, now)
		}
	}
	return Identity{}, Digest{}, false
}

// ForeignError says that a peer is of another cluster.
type ForeignError struct {
	Identity Identity
	Own      string // the cluster of the one who refused it
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("it is of cluster %s, and this is %s", e.Identity.Cluster, e.Own)
}

// EndedError says that a certificate was once valid and is not any more.
type EndedError struct {
	Identity Identity
	// At is when the certificate expired, or when the authority ended that has signed it.
	At time.Time
	// Former says that the certificate has not expired, but is of a former authority.
	Former bool
}

func (e *EndedError) Error() string {
	if e.Former {
		return "its certificate is of a former authority, which has counted until " + e.At.UTC().Format(time.RFC3339)
	}
	return "its certificate has ended at " + e.At.UTC().Format(time.RFC3339)
}

// Remedy tells people what the owner of such a certificate has to do.
func (e *EndedError) Remedy() string {
	if e.Identity.Kind == Agent && !e.Former {
		return "start it once more with --join FILE; the token: tender token create agent -o FILE"
	}
	return e.Identity.Kind.wayBack()
}

// wayBack says how a member of this kind comes back if it was away for a whole rotation of the authority.
func (k Kind) wayBack() string {
	switch k {
	case Master:
		return "start it once more with --join FILE; the token: tender token create master -o FILE"
	case Agent:
		return "start it with an empty data folder and --join FILE, as a new agent; the token: tender token create agent -o FILE"
	case Person:
		return "tender login --join FILE; an operator gives the token: tender token create operator --principal NAME -o FILE"
	case Framework, Nobody:
	}
	return "join anew, by a new token"
}

// hasEnded turns the error into an [EndedError] if an authority of the cluster has signed the certificate, and nothing
// else is wrong with it.
func (p *Pass) hasEnded(shown []*x509.Certificate, err error) error {
	identity, unnamed := p.named(shown)
	if unnamed != nil || shown[0].IsCA {
		return err
	}
	leaf, now, former := shown[0], time.Now(), p.anchors.Former
	for _, crossed := range shown[1:min(len(shown), shownMax)] {
		if crossed.IsCA && now.After(crossed.NotAfter) && crossed.CheckSignatureFrom(p.anchors.Root) == nil {
			return api.E(verifyOp, api.Denied, identity.String(), fmt.Errorf("another authority signs its certificate, and ours has counted until %s: %s",
				crossed.NotAfter.UTC().Format(time.RFC3339), p.identity.Kind.wayBack()))
		}
	}
	ended := &EndedError{Identity: identity, At: leaf.NotAfter}
	switch {
	case now.After(leaf.NotAfter) && p.anchors.hasSigned(leaf, now):
	case former != nil && now.After(former.NotAfter) && leaf.CheckSignatureFrom(former) == nil:
		ended.At, ended.Former = former.NotAfter, true
	default:
		return err
	}
	return api.E(verifyOp, api.Denied, identity.String(), ended)
}

func counts(certificate *x509.Certificate, now time.Time) bool {
	return !now.Before(certificate.NotBefore) && !now.After(certificate.NotAfter)
}

const verifyOp = "trust.verify"

// named returns whom a certificate names, which must be of this cluster.
func (p *Pass) named(shown []*x509.Certificate) (Identity, error) {
	if len(shown) == 0 {
		return Identity{}, api.E(verifyOp, api.Denied, "", errors.New("no certificate was shown"))
	}
	if len(shown[0].URIs) != 1 {
		return Identity{}, api.E(verifyOp, api.Denied, "", errors.New("the certificate names no identity"))
	}
	identity, err := FromURI(shown[0].URIs[0])
	if err == nil && identity.Cluster != p.identity.Cluster {
		err = api.E(verifyOp, api.Denied, identity.String(), &ForeignError{identity, p.identity.Cluster})
	}
	return identity, err
}

// The PEM types in the file of a pass.
const (
	privatePEMType     = "PRIVATE KEY"
	certificatePEMType = "CERTIFICATE"
)

// Marshal returns the pass as it is in a file: its key and, if it is signed, its certificate and the anchors.
func (p *Pass) Marshal() ([]byte, error) {
	if !p.IsSigned() {
		return marshalPEM(p.key)
	}
	return marshalPEM(p.key, append([]*x509.Certificate{p.leaf}, p.anchors.List()...)...)
}

// MarshalCertificate returns a certificate in PEM.
func MarshalCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificatePEMType, Bytes: certificate.Raw})
}

// ParsePass reads what Marshal wrote.
func ParsePass(text []byte) (*Pass, error) {
	key, certificates, err := parsePEM(text)
	if err != nil {
		return nil, err
	}
	p := &Pass{}
	p.key, _ = key.(*ecdsa.PrivateKey)
	switch {
	case p.key == nil:
		return nil, errors.New("it holds no private key of ECDSA P-256")
	case len(certificates) == 0:
		return p, nil
	}
	return p.Signed(certificates[0], certificates[1:])
}

// ReadPass reads the file of a pass; nil if there is none.
func ReadPass(name string) (*Pass, error) {
	text, err := ReadSecret(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := ParsePass(text)
	if err != nil {
		return nil, api.E("trust.pass", api.Invalid, name, fmt.Errorf("it can't be read: %w; delete it and join anew with a token", err))
	}
	return p, nil
}

// WritePass writes the file of a pass.
func WritePass(name string, p *Pass) error {
	text, err := p.Marshal()
	if err != nil {
		return err
	}
	return WriteSecret(name, text)
}
