package trust

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Token lets somebody join a cluster. It is one word: tender1_DIGEST_ID_SECRET.
type Token struct {
	Digest Digest // the authority's digest, so that the joiner sends its secret to nobody else
	ID     string // the name that operators use for the token
	Secret string
}

const tokenVersion = "tender1"

// TokenPrefix is what every token begins with.
const TokenPrefix = tokenVersion + "_"

var tokenLetters = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewToken makes a random token.
func NewToken(digest Digest) Token {
	return Token{Digest: digest, ID: strings.ToLower(rand.Text())[:8], Secret: strings.ToLower(rand.Text())}
}

// FirstToken returns the first operator's token of the cluster. An owner of the key can make it again.
func (k Key) FirstToken() (Token, error) {
	a, err := k.Authority()
	if err != nil {
		return Token{}, err
	}
	secret := strings.ToLower(tokenLetters.EncodeToString(k.Derive("first token"))[:26])
	return Token{Digest: a.Digest(), ID: FirstTokenID, Secret: secret}, nil
}

// FirstTokenID is the ID of the first operator's token.
const FirstTokenID = "first"

// String returns the token as it is handed over. It contains the secret: never log it.
func (t Token) String() string {
	return strings.Join([]string{tokenVersion, strings.ToLower(tokenLetters.EncodeToString(t.Digest[:])), t.ID, t.Secret}, "_")
}

// Hash returns what masters store instead of the secret.
func (t Token) Hash() string { return HashSecret(t.Secret) }

// HashSecret returns what masters store instead of a secret. A secret has 130 random bits, so that no slower hash is
// needed.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// SecretFits says whether a secret belongs to the stored hash.
func SecretFits(secret, hash string) bool {
	return subtle.ConstantTimeCompare([]byte(HashSecret(secret)), []byte(hash)) == 1
}

// ParseToken reads a token. Its error never contains the secret.
func ParseToken(text string) (Token, error) {
	refuse := func(format string, args ...any) (Token, error) {
		return Token{}, api.E("token.parse", api.Invalid, "", fmt.Errorf(format, args...))
	}
	parts := strings.Split(strings.TrimSpace(text), "_")
	if len(parts) != 4 || parts[0] != tokenVersion {
		return refuse("this is no token; one reads %s_DIGEST_ID_SECRET, in one word", tokenVersion)
	}
	digest, err := tokenLetters.DecodeString(strings.ToUpper(parts[1]))
	if err != nil || len(digest) != len(Digest{}) {
		return refuse("the token's second part is no digest; perhaps it was not copied whole")
	}
	t := Token{Digest: Digest(digest), ID: parts[2], Secret: parts[3]}
	if err := errors.Join(api.CheckID("the token's ID", t.ID), api.CheckID("the token's secret", t.Secret)); err != nil {
		return refuse("the token was not copied whole")
	}
	return t, nil
}

// RefuseKind returns the error for a token whose kind is not one that the joiner can be; nil if it is one. who is what
// the joiner calls itself: "a job manager".
func RefuseKind(token string, kind Kind, who string, can ...Kind) error {
	if slices.Contains(can, kind) {
		return nil
	}
	create := can[0].String()
	if can[0] == Person {
		create = "operator"
	}
	return api.E("trust.join", api.Invalid, token, fmt.Errorf("this is the token of %s; %s joins by one of: tender token create %s", kind.WithArticle(), who, create))
}
