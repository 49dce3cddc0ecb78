package visitors_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/rights"
)

// A command leaves a line when it begins and one when it has ended, a denial of somebody who is known leaves one; what
// strangers try leaves none, so that they fill no disk.
func TestWhatVisitorsDoIsWrittenDown(t *testing.T) {
	dir := t.TempDir()
	var v visitors.Visitors
	if err := v.OpenAudit("", dir, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	by := func(kind rights.Kind, name string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/v1/exec/f1/t1", nil)
		return r.WithContext(visitors.With(r.Context(), rights.Caller{Kind: kind, Name: name}, "agent POST /v1/exec"))
	}
	command := visitors.Command{Task: api.TaskRef{Framework: "f1", Task: "t1"}, Argv: []string{"curl", "https://u:secret@host/"}}
	v.NoteCommand(by(rights.Person, "ann"), command, nil)
	v.NoteCommand(by(rights.Person, "ann"), command, &inside.End{Code: 7})
	v.NoteCommand(by(rights.Anybody, ""), command, &inside.End{Code: 1, Why: "the client is gone"})
	refusal := api.E("ticket", api.Denied, "", errors.New("no ticket"))
	v.NoteDenied(by(rights.Person, "vic"), refusal)
	v.NoteDenied(by(rights.Nobody, ""), refusal)
	if err := v.CloseAudit(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	wants := [][]string{
		{`"who":"person ann"`, `"from":"192.0.2.1:1234"`, `"call":"agent POST /v1/exec"`, `"task":"f1/t1"`, `"curl","https://xxxxx@host/"`, `"result":"begun"`},
		{`"who":"person ann"`, `"exit_code":7`, `"result":"ok"`},
		{`"who":"anybody"`, `"result":"ended"`, `"why":"the client is gone"`},
		{`"who":"person vic"`, `"result":"denied"`, `"path":"/v1/exec/f1/t1"`, `"why":"no ticket"`},
	}
	if len(lines) != len(wants) || strings.Contains(string(text), "secret") {
		t.Fatalf("the audit log is\n%s", text)
	}
	for i, want := range wants {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d has no %s: %s", i+1, part, lines[i])
			}
		}
	}
}
