package trust

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenderhq/tender/api"
)

const (
	// KeyFile is the file in a master's folder that holds the key of its cluster.
	KeyFile = "cluster.key"
	// FirstTokenFile is the file in the first master's folder that holds the first operator's token.
	FirstTokenFile = "operator.token"
)

const (
	keyBytes   = 32
	keyPEMType = "TENDER CLUSTER KEY"
	// keyClusterHeader is the PEM header that names the trust domain.
	keyClusterHeader = "Cluster"
)

// Key is the one secret of a cluster. Whoever has it can be anybody in the cluster.
type Key struct {
	cluster string
	secret  [keyBytes]byte
	// authority is the present authority in the form of Authority.marshal; "": the one that is derived from the secret.
	authority string
}

// NewKey makes a random key and a random name for its cluster.
func NewKey() Key {
	k := Key{cluster: strings.ToLower(rand.Text())[:12]}
	_, _ = rand.Read(k.secret[:]) // it never fails
	return k
}

// Cluster returns the trust domain, which is the first part of all identities of the cluster.
func (k Key) Cluster() string { return k.cluster }

// Authority returns the cluster's certificate authority, as it was when the key was written.
func (k Key) Authority() (*Authority, error) {
	if k.authority == "" {
		return k.founded()
	}
	return parseAuthority(k.cluster, []byte(k.authority))
}

// WithAuthority returns the key with another authority than the one that is derived from it.
func (k Key) WithAuthority(a *Authority) (Key, error) {
	text, err := a.marshal()
	k.authority = string(text)
	return k, err
}

// Seal encrypts a text for one purpose, so that only an owner of the key can read it.
func (k Key) Seal(purpose string, text []byte) []byte {
	return k.sealer(purpose).Seal(nil, nil, text, []byte(k.cluster))
}

// Unseal reads what Seal wrote for the same purpose.
func (k Key) Unseal(purpose string, sealed []byte) ([]byte, error) {
	text, err := k.sealer(purpose).Open(nil, nil, sealed, []byte(k.cluster))
	if err != nil {
		return nil, api.E("trust.unseal", api.Invalid, purpose, errors.New("it was not sealed by this cluster's key"))
	}
	return text, nil
}

func (k Key) sealer(purpose string) cipher.AEAD {
	block, err := aes.NewCipher(k.Derive("seal of " + purpose))
	if err == nil {
		var sealer cipher.AEAD
		if sealer, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return sealer
		}
	}
	panic(err) // only if the key has another length
}

// authorityPurpose is the purpose for which authorities are sealed.
const authorityPurpose = "certificate authorities"

// SealAuthority returns the authority encrypted, so that others may store it.
func (k Key) SealAuthority(a *Authority) ([]byte, error) {
	text, err := a.marshal()
	if err != nil {
		return nil, err
	}
	return k.Seal(authorityPurpose, text), nil
}

// UnsealAuthority reads what SealAuthority wrote.
func (k Key) UnsealAuthority(sealed []byte) (*Authority, error) {
	text, err := k.Unseal(authorityPurpose, sealed)
	if err != nil {
		return nil, err
	}
	return parseAuthority(k.cluster, text)
}

// IsZero says whether there is no key.
func (k Key) IsZero() bool { return k.cluster == "" }

// String keeps the secret out of logs.
func (k Key) String() string { return "the key of cluster " + k.cluster }

// GoString does the same for %#v.
func (k Key) GoString() string { return k.String() }

// Derive makes a secret of 32 bytes for one purpose. It tells its owner neither the key nor the secret of another
// purpose.
func (k Key) Derive(purpose string) []byte {
	secret, err := hkdf.Key(sha256.New, k.secret[:], []byte(k.cluster), "tender "+purpose, keyBytes)
	if err != nil {
		panic(err) // only for a length that no hash allows
	}
	return secret
}

// Marshal returns the key as it is in a file, with its authority if that can't be derived from it.
func (k Key) Marshal() []byte {
	text := pem.EncodeToMemory(&pem.Block{Type: keyPEMType, Headers: map[string]string{keyClusterHeader: k.cluster}, Bytes: k.secret[:]})
	return append(text, k.authority...)
}

// ParseKey reads what Marshal wrote.
func ParseKey(text []byte) (Key, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyPEMType || len(block.Bytes) != keyBytes {
		return Key{}, fmt.Errorf("it holds no %s", keyPEMType)
	}
	k := Key{cluster: block.Headers[keyClusterHeader], secret: [keyBytes]byte(block.Bytes)}
	if err := checkCluster(k.cluster); err != nil || len(bytes.TrimSpace(rest)) == 0 {
		return k, err
	}
	a, err := parseAuthority(k.cluster, rest)
	if err != nil {
		return Key{}, err
	}
	return k.WithAuthority(a)
}

// ReadKey reads the key in a master's folder; the zero key if there is none.
func ReadKey(dir string) (Key, error) {
	name := filepath.Join(dir, KeyFile)
	text, err := ReadSecret(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Key{}, nil
	}
	if err != nil {
		return Key{}, err
	}
	k, err := ParseKey(text)
	if err != nil {
		return Key{}, api.E("trust.key", api.Invalid, name, fmt.Errorf("%w; take the file from another master's folder", err))
	}
	return k, nil
}

// WriteKey writes the key into a master's folder, in which there must be none yet.
func WriteKey(dir string, k Key) error {
	name := filepath.Join(dir, KeyFile)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return api.E("trust.key", api.Exists, name, errors.New("the folder has a cluster's key already"))
	}
	return WriteSecret(name, k.Marshal())
}

// RewriteKey replaces the key in a folder by the same cluster's key with another authority. It also rewrites the first
// operator's token, if the folder has it, as one for that authority.
func RewriteKey(dir string, k Key) error {
	if err := WriteSecret(filepath.Join(dir, KeyFile), k.Marshal()); err != nil {
		return err
	}
	name := filepath.Join(dir, FirstTokenFile)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	token, err := k.FirstToken()
	if err != nil {
		return err
	}
	return WriteSecret(name, []byte(token.String()+"\n"))
}
