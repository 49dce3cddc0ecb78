package visitors_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/ticket"
)

// A command leaves one line when it begins and one when it has ended. A denial leaves a line if it is known who asked.
// Attempts of strangers leave none, so that they can't fill the disk.
func TestWhatVisitorsDoIsWrittenDown(t *testing.T) {
	const call = "agent POST /v1/exec/{framework}/{task}"
	dir, h := t.TempDir(), newHouse(t)
	v := &h.visitors
	if err := v.OpenAudit("", dir, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	// ask makes a request, with a ticket for ticketFor if that is set. serve handles the request if it is admitted.
	ask := func(identify func(context.Context) trust.Identity, ticketFor string, serve func(r *http.Request)) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/v1/exec/f1/t1", nil)
		r.SetPathValue("framework", "f1")
		r.SetPathValue("task", "t1")
		if ticketFor != "" {
			word, err := ticket.Sign(h.master, h.wanted(ticketFor), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			trust.ShowTicket(r, word)
		}
		served := false
		guard := visitors.Guard{
			Visitors: v, Identify: identify, Holder: trust.NewHolder(h.agent), Denied: new(atomic.Uint64),
			Agent: func(context.Context) (api.AgentID, bool) { return "a1", true },
		}
		guard.Hold(call, func(_ http.ResponseWriter, r *http.Request) {
			served = true
			serve(r)
		})(httptest.NewRecorder(), r)
		if served != (serve != nil) {
			t.Errorf("served: %v, with a ticket for %q", served, ticketFor)
		}
	}
	person := func(name string) func(context.Context) trust.Identity {
		return func(context.Context) trust.Identity { return h.wanted(name).For }
	}
	nobody := func(context.Context) trust.Identity { return trust.Identity{} }
	command := visitors.Command{Task: api.TaskRef{Framework: "f1", Task: "t1"}, Argv: []string{"curl", "https://u:secret@host/"}}
	ask(person("ann"), "ann", func(r *http.Request) {
		v.NoteCommand(r, command, nil)
		v.NoteCommand(r, command, &frames.End{Code: 7})
	})
	ask(nil, "", func(r *http.Request) { v.NoteCommand(r, command, &frames.End{Code: 1, Why: "the client is gone"}) })
	ask(person("vic"), "", nil)
	ask(nobody, "", nil)
	if err := v.CloseAudit(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	wants := [][]string{
		{`"who":"person ann"`, `"from":"192.0.2.1:1234"`, `"call":"` + call + `"`, `"task":"f1/t1"`, `"curl","https://xxxxx@host/"`, `"result":"begun"`},
		{`"who":"person ann"`, `"exit_code":7`, `"result":"ok"`},
		{`"who":"anybody"`, `"result":"ended"`, `"why":"the client is gone"`},
		{`"who":"person vic"`, `"result":"denied"`, `"path":"/v1/exec/f1/t1"`, `"why":"`, `ticket`},
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
