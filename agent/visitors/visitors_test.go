package visitors_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	word, err := ticket.Sign(h.master, h.wanted(who), signed)
	if err != nil {
		h.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	trust.ShowTicket(r, word)
	return h.visitors.Enter(r, h.agent, h.wanted(who))
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

func TestWithoutATicketNobodyEnters(t *testing.T) {
	h := newHouse(t)
	if _, _, err := h.visitors.Enter(httptest.NewRequest(http.MethodGet, "/", nil), h.agent, h.wanted("ann")); !api.Is(err, api.Denied) {
		t.Errorf("%v", err)
	}
}
