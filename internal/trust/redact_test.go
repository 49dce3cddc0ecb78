package trust_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/trust"
)

// TestRedact: no secret of Tender survives, however it is written, nor does what is named as one; what is none stays.
func TestRedact(t *testing.T) {
	key := trust.NewKey()
	authority, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Agent, Name: "a1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	kept, err := pass.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	token := trust.NewToken(authority.Digest())
	escaped, err := json.Marshal(map[string]string{"file": string(kept)})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(kept), "\n")
	for _, c := range []struct{ text, secret string }{
		{"joins by " + token.String() + ".", token.Secret},
		{string(kept), lines[2]},
		{string(escaped), lines[2]},
		{string(key.Marshal()), strings.Split(string(key.Marshal()), "\n")[3]},
		{"Authorization: Bearer abc.def-123", "abc.def"},
		{"shows eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl", "c2lnbmF0dXJl"},
		{"https://ann:hunter2@registry.example.org/app", "hunter2"},
		{"DB_PASSWORD=hunter2 run", "hunter2"},
		{`{"db-password": "hunter \"2\"", "cpus": 1}`, "hunter"},
		{"api_key: hunter2", "hunter2"},
	} {
		if got := trust.Redact(c.text); strings.Contains(got, c.secret) {
			t.Errorf("%q leaves %q", c.text, got)
		}
	}
	for _, text := range []string{
		`{"level":"info","task":"f1/t1","why":"exited with 0","message":"task ended"}`, "tender_tasks{state=\"RUNNING\"} 3", "http://10.0.0.1:5050/metrics",
	} {
		if got := trust.Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
