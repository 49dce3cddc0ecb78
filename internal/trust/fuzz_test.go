package trust_test

import (
	"testing"

	"github.com/tenderhq/tender/internal/trust"
)

// FuzzParsers: whatever somebody shows as a token, a name, a pass or a key, it is read or refused; and a token that was
// read is written as it was.
func FuzzParsers(f *testing.F) {
	for _, text := range []string{
		"operator:ann", "agent:agent-1", "master:m1", "tender-token", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n", "", "a.b.c",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := trust.ParseToken(text); err == nil {
			if again, err := trust.ParseToken(token.String()); err != nil || again.String() != token.String() {
				t.Fatalf("%q is read as %q, and that as %q: %v", text, token, again, err)
			}
		}
		if who, err := trust.Parse(text); err == nil {
			if again, err := trust.Parse(who.String()); err != nil || again != who {
				t.Fatalf("%q is read as %v, and that as %v: %v", text, who, again, err)
			}
		}
		if pass, err := trust.ParsePass([]byte(text)); err == nil && pass == nil {
			t.Fatal("a pass that is none")
		}
		_, _ = trust.ParseKey([]byte(text))
	})
}
