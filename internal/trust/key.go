package trust

import (
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

// KeyFile is where a master's folder holds the key of its cluster.
const KeyFile = "cluster.key"

const (
	keyBytes   = 32
	keyPEMType = "TENDER CLUSTER KEY"
	// keyClusterHeader names the trust domain in the file.
	keyClusterHeader = "Cluster"
)

// Key is the one secret of a cluster. Whoever has it can be anybody in the cluster.
type Key struct {
	cluster string
	secret  [keyBytes]byte
}

// NewKey draws a key, and a name for its cluster.
func NewKey() Key {
	k := Key{cluster: strings.ToLower(rand.Text())[:12]}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// Cluster is the trust domain: the first part of all identities of the cluster.
func (k Key) Cluster() string { return k.cluster }

// IsZero says that it is no key.
func (k Key) IsZero() bool { return k.cluster == "" }

// String keeps the secret out of logs.
func (k Key) String() string { return "the key of cluster " + k.cluster }

// GoString does the same for %#v.
func (k Key) GoString() string { return k.String() }

// Derive makes a secret of 32 bytes for one purpose. Who knows it learns neither the key nor the secret of another purpose.
func (k Key) Derive(purpose string) []byte {
	secret, err := hkdf.Key(sha256.New, k.secret[:], []byte(k.cluster), "tender "+purpose, keyBytes)
	if err != nil {
		panic(err) // only of a length that no hash allows
	}
	return secret
}

// Marshal is the key as a file has it.
func (k Key) Marshal() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: keyPEMType, Headers: map[string]string{keyClusterHeader: k.cluster}, Bytes: k.secret[:]})
}

// ParseKey reads what Marshal wrote.
func ParseKey(text []byte) (Key, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyPEMType || len(block.Bytes) != keyBytes || len(strings.TrimSpace(string(rest))) > 0 {
		return Key{}, fmt.Errorf("it holds no %s", keyPEMType)
	}
	k := Key{cluster: block.Headers[keyClusterHeader], secret: [keyBytes]byte(block.Bytes)}
	return k, checkCluster(k.cluster)
}

// ReadKey reads the key of a master's folder; the zero key if there is none.
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

// WriteKey writes the key into a master's folder, which must hold none yet.
func WriteKey(dir string, k Key) error {
	name := filepath.Join(dir, KeyFile)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return api.E("trust.key", api.Exists, name, errors.New("the folder has a cluster's key already"))
	}
	return WriteSecret(name, k.Marshal())
}
