package trust

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
)

// marshal returns the authority as it is in files and sealed messages: its private key, then its anchors.
func (a *Authority) marshal() ([]byte, error) { return marshalPEM(a.key, a.anchors.List()...) }

func marshalPEM(key crypto.Signer, certificates ...*x509.Certificate) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: privatePEMType, Bytes: der})
	for _, certificate := range certificates {
		text = append(text, MarshalCertificate(certificate)...)
	}
	return text, nil
}

// parsePEM reads what marshalPEM wrote, or PEM in another form in which keys are kept; the key is nil if there is none.
func parsePEM(text []byte) (key crypto.Signer, certificates []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil && err == nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case certificatePEMType:
			var certificate *x509.Certificate
			certificate, err = x509.ParseCertificate(block.Bytes)
			certificates = append(certificates, certificate)
		case privatePEMType, "EC PRIVATE KEY", "RSA PRIVATE KEY":
			key, err = parsePrivate(block)
		}
	}
	return key, certificates, err
}

// parseAuthority reads an authority of a cluster.
func parseAuthority(cluster string, text []byte) (*Authority, error) {
	key, anchors, err := parsePEM(text)
	if err != nil {
		return nil, fmt.Errorf("an authority can't be read: %w", err)
	}
	if key == nil || len(anchors) == 0 {
		return nil, errors.New("an authority is a private key and a certificate, in PEM; one of them is missing")
	}
	if public, is := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !is || !public.Equal(anchors[0].PublicKey) {
		return nil, errors.New("the authority's private key is not that of its certificate")
	}
	return &Authority{cluster: cluster, key: key, anchors: anchorsOf(anchors)}, nil
}

func parsePrivate(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	signer, is := key.(crypto.Signer)
	if !is {
		return nil, fmt.Errorf("a key of type %T signs nothing", key)
	}
	return signer, nil
}

// OwnAuthority returns an organisation's own authority, from the PEM of its certificate and of its key. It is refused
// if certificates that it signs for the cluster would not be valid.
func OwnAuthority(cluster string, certificate, key []byte, now time.Time) (*Authority, error) {
	const op = "trust.authority"
	a, err := parseAuthority(cluster, append(append(key, '\n'), certificate...))
	if err != nil {
		return nil, api.E(op, api.Invalid, cluster, err)
	}
	a.anchors = Anchors{Root: a.anchors.Root} // certificates that lead to another root are not used here
	root := a.anchors.Root
	switch {
	case !root.IsCA || root.KeyUsage != 0 && root.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, api.E(op, api.Invalid, root.Subject.String(), errors.New("this is no certificate of an authority: it may sign none"))
	case now.Before(root.NotBefore) || now.Add(agentLife).After(root.NotAfter):
		return nil, api.E(op, api.Invalid, root.Subject.String(), fmt.Errorf("it is good from %s to %s; an authority must be good for %d days at least, the life of an agent's certificate",
			root.NotBefore.Format(time.DateOnly), root.NotAfter.Format(time.DateOnly), int(agentLife/(24*time.Hour))))
	}
	if _, err := a.Issue(Identity{Kind: Master, Name: "m1"}, now); err != nil {
		return nil, api.E(op, api.Invalid, root.Subject.String(), fmt.Errorf("what it signs for a master would not count: %w", err))
	}
	return a, nil
}
