package visitors_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
)

// house is an agent, and the master that signs tickets for it.
type house struct {
	t             *testing.T
	agent, master *trust.Pass
	visitors      visitors.Visitors
}

func newHouse(t *testing.T) *house {
	t.Helper()
	authority, err := trust.NewKey().Authority()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t}
	for kind, pass := range map[trust.Kind]**trust.Pass{trust.Agent: &h.agent, trust.Master: &h.master} {
		if *pass, err = authority.Issue(trust.Identity{Kind: kind, Name: "n"}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *house) wanted(who string) ticket.Ticket {
	return ticket.Ticket{
		For: trust.Identity{Cluster: h.master.Identity().Cluster, Kind: trust.Person, Name: who}, Opens: rights.TicketToExec,
		Agent: "a1", Task: api.TaskRef{Framework: "f1", Task: "t1"},
	}
}

// enter makes a request with a ticket that was signed at that time.
func (h *house) enter(who string, signed time.Time) (context.Context, func(), error) {
	h.t.Helper()
	return h.show(h.wanted(who), signed)
}

// show makes a request with a ticket.
func (h *house) show(one ticket.Ticket, signed time.Time) (context.Context, func(), error) {
	h.t.Helper()
	word, err := ticket.Sign(h.master, one, signed)
	if err != nil {
		h.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	trust.ShowTicket(r, word)
	one.Person = "" // a request is known by its certificate alone
	return h.visitors.Enter(r, h.agent, one)
}

// The visits of somebody who was revoked end at once, and his other tickets open nothing any more. Other visitors stay,
// and so do those with a ticket that was signed later.
func TestWhoseTicketsAreOverIsShownOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		signed := time.Now()
		stay := map[string]func() error{} // why each visit has ended
		for _, who := range []string{"ann", "bob"} {
			ctx, leave, err := h.enter(who, signed)
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
			stay[who] = func() error { return context.Cause(ctx) }
		}
		<-time.After(time.Minute) // in virtual time
		h.visitors.End("ann", time.Now())
		if cause := stay["ann"](); !api.Is(cause, api.Denied) || !strings.Contains(cause.Error(), "revoked") {
			t.Errorf("ann's visit ended with %v", cause)
		}
		if stay["bob"]() != nil {
			t.Error("bob was shown out")
		}
		if _, _, err := h.enter("ann", signed); !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("ann comes back by the ticket that she has: %v", err)
		}
		h.visitors.End("ann", signed) // a repetition with an earlier time changes nothing
		if _, _, err := h.enter("ann", signed.Add(30*time.Second)); err == nil {
			t.Error("an older end has taken the place of a newer one")
		}
		<-time.After(2 * time.Second)
		if _, leave, err := h.enter("ann", time.Now()); err != nil {
			t.Errorf("ann, who may again, is refused: %v", err)
		} else {
			leave()
		}
	})
}

// A master that shows a ticket for a person is let in as that person: it is shown out with them, and what it does is
// theirs. (Protocol rule R86.)
func TestAMasterEntersForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		one := h.wanted("ann")
		one.For, one.Person = h.master.Identity(), "ann"
		ctx, leave, err := h.show(one, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		dir := t.TempDir()
		if err := h.visitors.OpenAudit("", dir, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		h.visitors.NoteCommand(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), visitors.Command{Task: one.Task}, nil)
		if text, err := os.ReadFile(filepath.Join(dir, "audit.log")); err != nil || !strings.Contains(string(text), `"person ann by a browser"`) {
			t.Errorf("what is done is written down as %s, %v", text, err)
		}
		<-time.After(time.Second)
		h.visitors.End(h.master.Identity().Name, time.Now())
		if ctx.Err() != nil {
			t.Error("ann was shown out with somebody else")
		}
		h.visitors.Revoke("ann", time.Now())
		if cause := context.Cause(ctx); !api.Is(cause, api.Denied) {
			t.Errorf("when ann was revoked, her visit ended with %v", cause)
		}
		if _, _, err := h.show(one, time.Now()); !api.Is(err, api.Denied) {
			t.Errorf("ann, who was revoked, comes in: %v", err)
		}
	})
}

func TestWithoutATicketNobodyEnters(t *testing.T) {
	h := newHouse(t)
	if _, _, err := h.visitors.Enter(httptest.NewRequest(http.MethodGet, "/", nil), h.agent, h.wanted("ann")); !api.Is(err, api.Denied) {
		t.Errorf("%v", err)
	}
}
