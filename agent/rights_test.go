package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/internal/trust"
)

// TestRoutesAreHeldToTheTable: every route has a row and every row a route. What takes a ticket opens for nothing else.
func TestRoutesAreHeldToTheTable(t *testing.T) {
	tries := []struct {
		who      trust.Identity
		identify bool
		opens    func(rights.Row) bool
	}{
		{trust.Identity{}, false, func(rights.Row) bool { return true }},
		{trust.Identity{}, true, open},
		{trust.Identity{Kind: trust.Agent, Name: "nonce"}, true, open},
		{trust.Identity{Kind: trust.Framework, Name: "etl"}, true, open},
		{trust.Identity{Kind: trust.Person, Name: "ann"}, true, func(row rights.Row) bool { return open(row) || slices.Contains(row.Kinds, rights.Person) }},
		{trust.Identity{Kind: trust.Master, Name: "m1"}, true, func(row rights.Row) bool { return open(row) || len(row.Kinds) > 0 }},
	}
	served := map[string]bool{}
	for pattern := range (&Agent{folder: &dataFolder{}}).routes() {
		call := "agent " + pattern
		served[call] = true
		row, has := rights.RowOf(call)
		if !has {
			t.Errorf("%s is served and has no row in the table", call)
		}
		for i, try := range tries {
			a := &Agent{folder: &dataFolder{}}
			if try.identify {
				a.config.Identify = func(context.Context) trust.Identity { return try.who }
			}
			answer := httptest.NewRecorder()
			a.guard().Hold(call, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })(answer, httptest.NewRequest("GET", "/", nil))
			want, denied := http.StatusForbidden, uint64(1)
			if try.opens(row) {
				want, denied = http.StatusTeapot, 0
			}
			if answer.Code != want || a.metrics.denied.Load() != denied {
				t.Errorf("%s, try %d: answered %d and counted %d, want %d and %d", call, i, answer.Code, a.metrics.denied.Load(), want, denied)
			}
			if says := strings.Contains(answer.Body.String(), "ticket"); says != (want == http.StatusForbidden && row.Ticket != "") {
				t.Errorf("%s, try %d: answered %s", call, i, answer.Body)
			}
		}
	}
	for _, row := range rights.Table {
		if strings.HasPrefix(row.Call, "agent ") && !served[row.Call] {
			t.Errorf("%s has a row, and nobody serves it", row.Call)
		}
	}
}

// open says whether everybody may call a route.
func open(row rights.Row) bool { return len(row.Kinds) == 1 && row.Kinds[0] == rights.Nobody }
