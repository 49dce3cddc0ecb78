package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// clocksApart is how far the clocks of two machines may differ.
const clocksApart = time.Hour

// The root is valid at every time that a machine may believe it is. It is replaced by a new cluster key, not by a date.
var (
	rootBegins = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	rootEnds   = time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Digest identifies an authority before its certificate is known: it is the SHA-256 of its public key.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// DigestOf returns the digest of a root.
func DigestOf(root *x509.Certificate) Digest { return sha256.Sum256(root.RawSubjectPublicKeyInfo) }

// Authority signs the certificates of one cluster. All masters have the same.
type Authority struct {
	cluster string
	key     crypto.Signer
	anchors Anchors
	lives   Lives // how long the certificates that it signs are valid
}

// Living returns the authority with other lives for its certificates. What it has signed before stays valid as it was.
func (a *Authority) Living(lives Lives) *Authority {
	other := *a
	other.lives = lives
	return &other
}

// founded derives from the key the authority with which a cluster begins.
func (k Key) founded() (*Authority, error) {
	var key *ecdsa.PrivateKey
	var err error
	for try := 0; ; try++ { // one in 2^32 results is no key of the curve
		key, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), k.Derive(fmt.Sprint("certificate authority ", try)))
		if err == nil || try == 8 {
			break
		}
	}
	if err != nil {
		return nil, api.E("trust.authority", api.Internal, k.cluster, err)
	}
	return newAuthority(k.cluster, key, "Tender cluster "+k.cluster)
}

// NewAuthority makes a random authority that is to follow another one; see [Authority.After].
func NewAuthority(cluster string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, api.E("trust.authority", api.Internal, cluster, err)
	}
	return newAuthority(cluster, key, "Tender cluster "+cluster+" "+strings.ToLower(rand.Text())[:6])
}

func newAuthority(cluster string, key *ecdsa.PrivateKey, name string) (*Authority, error) {
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: rootBegins, NotAfter: rootEnds, IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		URIs:     []*url.URL{{Scheme: scheme, Host: cluster}},
	}
	made, err := create(root, root, key.Public(), key)
	if err != nil {
		return nil, api.E("trust.authority", api.Internal, cluster, err)
	}
	return &Authority{cluster: cluster, key: key, anchors: Anchors{Root: made}}, nil
}

// create signs a certificate.
func create(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// After returns the authority as the successor of a former one. The former one counts as well until ends: a peer that
// knows only one of them verifies the other by certificates in which each has signed the other's key.
func (a *Authority) After(former *Authority, now, ends time.Time) (*Authority, error) {
	const op = "trust.rotate"
	if a.cluster != former.cluster || a.Digest() == former.Digest() {
		return nil, api.E(op, api.Invalid, a.cluster, errors.New("an authority follows another one of the same cluster"))
	}
	next := &Authority{cluster: a.cluster, key: a.key, anchors: Anchors{Root: a.anchors.Root}}
	var err error
	if next.anchors.Crossed, err = cross(a.anchors.Root, former, now, ends); err == nil {
		next.anchors.Former, err = cross(former.anchors.Root, a, now, ends)
	}
	if err != nil {
		return nil, api.E(op, api.Internal, a.cluster, err)
	}
	return next, nil
}

// cross returns the key of an authority, signed by another one.
func cross(of *x509.Certificate, by *Authority, now, ends time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return create(&x509.Certificate{
		SerialNumber: serial, RawSubject: of.RawSubject, SubjectKeyId: of.SubjectKeyId,
		NotBefore: now.Add(-clocksApart), NotAfter: ends, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, URIs: []*url.URL{{Scheme: scheme, Host: by.cluster}},
	}, by.anchors.Root, of.PublicKey, by.key)
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// Cluster returns the trust domain.
func (a *Authority) Cluster() string { return a.cluster }

// Digest returns the digest by which joiners know the authority.
func (a *Authority) Digest() Digest { return DigestOf(a.anchors.Root) }

// Anchors returns the certificates by which the members verify each other.
func (a *Authority) Anchors() Anchors { return a.anchors }

// Sign makes a certificate for the owner of the private key that belongs to this public key. hosts are names and
// addresses by which browsers and other programs that do not know Tender reach its owner.
func (a *Authority) Sign(public crypto.PublicKey, identity Identity, now time.Time, hosts ...string) (*x509.Certificate, error) {
	const op = "trust.sign"
	identity.Cluster = a.cluster
	if err := identity.Check(); err != nil {
		return nil, api.E(op, api.Invalid, identity.Name, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, api.E(op, api.Internal, identity.Name, err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: identity.Kind.String() + " " + identity.Name},
		NotBefore: now.Add(-clocksApart), NotAfter: a.EndOf(identity.Kind, now), BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		URIs:        []*url.URL{identity.URI()},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else if host != "" {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	made, err := create(leaf, a.anchors.Root, public, a.key)
	if err != nil {
		return nil, api.E(op, api.Invalid, identity.Name, err)
	}
	return made, nil
}

// EndOf returns until when a certificate of this kind is valid that is signed now.
func (a *Authority) EndOf(kind Kind, now time.Time) time.Time {
	ends := now.Add(a.lives.Of(kind))
	if rootEnds := a.anchors.Root.NotAfter; rootEnds.Before(ends) { // of one's own organisation
		return rootEnds
	}
	return ends
}

// SignRequest reads a joiner's certificate request, which proves that the joiner has the private key, and signs it.
// Names in the request are ignored; hosts are those of [Authority.Sign].
func (a *Authority) SignRequest(der []byte, identity Identity, now time.Time, hosts ...string) (*x509.Certificate, error) {
	const op = "trust.sign"
	request, err := readRequest(der)
	if err != nil {
		return nil, api.E(op, api.Invalid, identity.Name, err)
	}
	return a.Sign(request.PublicKey, identity, now, hosts...)
}

// Recognise returns whom an expired certificate names, if this authority has signed it, or the former one while that
// counts. The request for a new certificate must be for the same key, which proves that the holder is still the same.
func (a *Authority) Recognise(ended, request []byte, now time.Time) (Identity, error) {
	const op = "trust.recognise"
	leaf, err := x509.ParseCertificate(ended)
	if err != nil {
		return Identity{}, api.E(op, api.Invalid, "", fmt.Errorf("the certificate that has ended can't be read: %w", err))
	}
	identity, err := FromURI(onlyURI(leaf))
	if err != nil {
		return Identity{}, err
	}
	wish, err := x509.ParseCertificateRequest(request)
	switch public, is := leaf.PublicKey.(*ecdsa.PublicKey); {
	case err != nil:
		return Identity{}, api.E(op, api.Invalid, identity.Name, fmt.Errorf("the request for a certificate can't be read: %w", err))
	case identity.Cluster != a.cluster:
		return Identity{}, api.E(op, api.Denied, identity.String(), fmt.Errorf("it is of cluster %s, and this is %s", identity.Cluster, a.cluster))
	case !a.anchors.hasSigned(leaf, now):
		return Identity{}, api.E(op, api.Denied, identity.String(), errors.New("its certificate, which has ended, is of an authority that counts no more"))
	case !is || !public.Equal(wish.PublicKey):
		return Identity{}, api.E(op, api.Denied, identity.String(), errors.New("the request is for another key than the certificate that has ended"))
	}
	return identity, nil
}

// readRequest reads a certificate request. The sender must have the private key, which must be of a type that is signed
// here.
func readRequest(der []byte) (*x509.CertificateRequest, error) {
	request, err := x509.ParseCertificateRequest(der)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("the request for a certificate can't be read: %w", err)
	}
	if public, is := request.PublicKey.(*ecdsa.PublicKey); !is || public.Curve != elliptic.P256() {
		return nil, errors.New("the request for a certificate is for a key of a kind that is not used here; ECDSA P-256 is")
	}
	return request, nil
}

// RequestKey returns a name for the key of a request, so that a repeated request is recognized. A request that would
// not be signed has none.
func RequestKey(der []byte) (string, error) {
	request, err := readRequest(der)
	if err != nil {
		return "", api.E("trust.sign", api.Invalid, "", err)
	}
	sum := sha256.Sum256(request.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:16]), nil
}

// Issue makes a pass directly with the authority: a master for itself, or somebody who has a master's folder.
func (a *Authority) Issue(identity Identity, now time.Time, hosts ...string) (*Pass, error) {
	p := NewPass()
	leaf, err := a.Sign(p.key.Public(), identity, now, hosts...)
	if err != nil {
		return nil, err
	}
	return p.Signed(leaf, a.anchors.List())
}
