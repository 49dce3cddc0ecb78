package vault_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/internal/vault"
)

// TestASecretIsOpenedUnderItsNameByItsClusterAlone, and its value is not in what is kept.
func TestASecretIsOpenedUnderItsNameByItsClusterAlone(t *testing.T) {
	key := trust.NewKey()
	sealed, err := vault.Seal(key, "eng/db", []byte("hunter2"))
	if err != nil || bytes.Contains(sealed, []byte("hunter2")) {
		t.Fatalf("it is sealed as %q, %v", sealed, err)
	}
	again, err := vault.Seal(key, "eng/db", []byte("hunter2"))
	if err != nil || bytes.Equal(sealed, again) {
		t.Errorf("that two values are the same can be seen: %v", err)
	}
	send := func(id api.SecretID) core.SendSecrets {
		return core.SendSecrets{Task: api.TaskRef{Framework: "f1", Task: "t1"}, Secrets: []secrets.Sealed{{ID: id, Text: sealed}}}
	}
	if event := vault.Open(key, send("eng/db")); event.Why != "" || len(event.Values) != 1 || string(event.Values[0].Value) != "hunter2" {
		t.Errorf("it is opened as %+v", event)
	}
	if event := vault.Open(key, send("eng/key")); !strings.Contains(event.Why, "can't be opened") || event.Values != nil {
		t.Errorf("under another name it is opened as %+v", event)
	}
	if event := vault.Open(trust.NewKey(), send("eng/db")); !strings.Contains(event.Why, "set it again") || event.Values != nil {
		t.Errorf("by another cluster it is opened as %+v", event)
	}
	for kind, value := range map[api.Kind][]byte{api.Invalid: nil, api.Limit: make([]byte, api.SecretBytesMax+1)} {
		if _, err := vault.Seal(key, "eng/db", value); !api.Is(err, kind) {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
	if _, err := vault.Seal(trust.Key{}, "eng/db", []byte("x")); !api.Is(err, api.Unsupported) || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("without a key: %v", err)
	}
}
