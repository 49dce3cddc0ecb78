package registry

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// TestSecretsAreSetReplacedAndRemoved, each with who did it and when.
func TestSecretsAreSetReplacedAndRemoved(t *testing.T) {
	x := newTokens(t)
	x.wants(allowed, SetSecret{"eng/etl/db", []byte("one"), "ann"})
	before := x.state.Clone()
	x.wants(allowed, SetSecret{"eng/etl/db", []byte("two"), "bob"})
	if got := x.state.Secrets["eng/etl/db"]; string(got.Sealed) != "two" || got.By != "bob" || !got.Set.Equal(x.at) {
		t.Errorf("it is %+v", got)
	}
	if got := before.Secrets["eng/etl/db"]; string(got.Sealed) != "one" {
		t.Errorf("a clone changes: %+v", got)
	}
	x.wants(api.NotFound, RemoveSecret{"eng/etl/none", x.at})
	x.wants(api.Stale, RemoveSecret{"eng/etl/db", x.at.Add(-time.Second)})
	x.wants(allowed, RemoveSecret{"eng/etl/db", x.at})
	x.wants(api.NotFound, RemoveSecret{"eng/etl/db", x.at})
	if len(before.Secrets) != 1 {
		t.Error("a clone has lost it")
	}
	for _, id := range []api.SecretID{"", "db", "/db", "eng/", "eng/..", "eng/*/db", api.SecretID("eng/" + string(bytes.Repeat([]byte("x"), 256)))} {
		x.wants(api.Invalid, SetSecret{id, []byte("x"), ""})
	}
	x.wants(api.Invalid, SetSecret{"eng/db", nil, ""})
}

// TestSecretsAreBounded: one alone, those of a role, and all together.
func TestSecretsAreBounded(t *testing.T) {
	x := newTokens(t)
	x.wants(allowed, SetSecret{"eng/most", make([]byte, SealedSecretBytesMax), ""})
	x.wants(api.Limit, SetSecret{"eng/more", make([]byte, SealedSecretBytesMax+1), ""})
	for i := range SecretsPerRoleMax - 1 {
		x.wants(allowed, SetSecret{api.SecretID(fmt.Sprint("eng/s", i)), []byte("x"), ""})
	}
	x.wants(api.Limit, SetSecret{"eng/another", []byte("x"), ""})
	x.wants(allowed, SetSecret{"eng/s1", []byte("y"), ""}) // no more than before
	x.wants(allowed, SetSecret{"eng/etl/another", []byte("x"), ""})
	x = newTokens(t)
	const most = SecretsBytesMax / (SealedSecretBytesMax + 16)
	for i := range most {
		x.wants(allowed, SetSecret{api.SecretID(fmt.Sprintf("r%03d/s", i)), make([]byte, SealedSecretBytesMax), ""})
	}
	x.wants(api.Limit, SetSecret{"last/s", make([]byte, SealedSecretBytesMax), ""})
	x.wants(allowed, SetSecret{"r000/s", []byte("x"), ""})
	x.wants(allowed, SetSecret{"last/s", make([]byte, SealedSecretBytesMax), ""})
}
