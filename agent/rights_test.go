package agent

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/internal/trust"
)

// TestRoutesAreHeldToTheTable: every route has its row, every row its route; what takes a ticket is opened by nothing else.
func TestRoutesAreHeldToTheTable(t *testing.T) {
	ticket := api.E("agent.ticket", api.Denied, "", errors.New("no ticket"))
	tries := []struct {
		who      trust.Identity
		identify bool
		ticket   bool
		opens    func(rights.Row) bool
	}{
		{trust.Identity{}, false, false, func(rights.Row) bool { return true }},
		{trust.Identity{}, true, false, open},
		{trust.Identity{}, true, true, func(row rights.Row) bool { return open(row) || row.Ticket }},
		{trust.Identity{Kind: trust.Person, Name: "ann"}, true, false, open},
		{trust.Identity{Kind: trust.Agent, Name: "nonce"}, true, false, open},
		{trust.Identity{Kind: trust.Master, Name: "m1"}, true, false, func(row rights.Row) bool { return open(row) || len(row.Kinds) > 0 }},
	}
	unasked := []struct { // by an agent that asks for no tickets
		who   trust.Identity
		opens func(rights.Row) bool
	}{
		{trust.Identity{Kind: trust.Person, Name: "ann"}, func(row rights.Row) bool { return open(row) || row.Ticket }},
		{trust.Identity{Kind: trust.Framework, Name: "etl"}, func(row rights.Row) bool { return open(row) || row.Ticket && row.On == rights.OnTasks }},
		{trust.Identity{}, open},
	}
	served := map[string]bool{}
	for pattern := range new(Agent).routes() {
		call := "agent " + pattern
		served[call] = true
		row, has := rights.RowOf(call)
		if !has {
			t.Errorf("%s is served and has no row in the table", call)
		}
		for i, try := range tries {
			a := new(Agent)
			if try.identify {
				a.config.Identify = func(context.Context) trust.Identity { return try.who }
				a.config.Ticket = func(*http.Request) error {
					if try.ticket {
						return nil
					}
					return ticket
				}
			}
			answer := httptest.NewRecorder()
			a.guarded(call, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })(answer, httptest.NewRequest("GET", "/", nil))
			want, denied := http.StatusForbidden, uint64(1)
			if try.opens(row) {
				want, denied = http.StatusTeapot, 0
			}
			if answer.Code != want || a.metrics.denied.Load() != denied {
				t.Errorf("%s, try %d: answered %d and counted %d, want %d and %d", call, i, answer.Code, a.metrics.denied.Load(), want, denied)
			}
		}
		for _, try := range unasked {
			a := new(Agent)
			a.config.Identify = func(context.Context) trust.Identity { return try.who }
			if err := a.mayCall(call, httptest.NewRequest("GET", "/", nil)); (err == nil) != try.opens(row) {
				t.Errorf("%s, by %s without a ticket: %v", call, try.who.Kind, err)
			}
		}
	}
	for _, row := range rights.Table {
		if strings.HasPrefix(row.Call, "agent ") && !served[row.Call] {
			t.Errorf("%s has a row, and nobody serves it", row.Call)
		}
	}
}

// open says whether everybody may call it.
func open(row rights.Row) bool { return len(row.Kinds) == 1 && row.Kinds[0] == rights.Nobody }
