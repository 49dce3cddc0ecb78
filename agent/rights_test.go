package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// TestRoutesAreHeldToTheTable: every route has a row and every row a route. What takes a ticket opens for nothing else.
// Who was revoked gets nothing that is not for everybody; nor does a principal, as long as no leader has said who was.
func TestRoutesAreHeldToTheTable(t *testing.T) {
	ann := trust.Identity{Kind: trust.Person, Name: "ann"}
	etl := trust.Identity{Kind: trust.Framework, Name: "etl"}
	bob := trust.Identity{Kind: trust.Person, Name: "bob"} // may look at the cluster
	shut := func(rights.Row) int { return http.StatusForbidden }
	may := func(kind rights.Kind) func(rights.Row) int {
		return func(row rights.Row) int {
			if slices.Contains(row.Kinds, kind) {
				return http.StatusTeapot
			}
			return http.StatusForbidden
		}
	}
	tries := []struct {
		who     trust.Identity
		plain   bool   // nobody is identified
		revoked string // who was revoked; "-": no leader has said
		answer  func(rights.Row) int
	}{
		{plain: true, answer: func(rights.Row) int { return http.StatusTeapot }},
		{answer: shut},
		{who: trust.Identity{Kind: trust.Agent, Name: "nonce"}, answer: shut},
		{who: etl, answer: may(rights.Framework)},
		{who: etl, revoked: "etl", answer: shut},
		{who: ann, revoked: "etl", answer: may(rights.Person)},
		{who: ann, revoked: "ann", answer: shut},
		{who: ann, revoked: "-", answer: func(row rights.Row) int {
			if row.Verb == rights.View {
				return http.StatusServiceUnavailable
			}
			return http.StatusForbidden
		}},
		{who: bob, revoked: "ann", answer: func(row rights.Row) int {
			if row.Verb == rights.View {
				return http.StatusTeapot
			}
			return http.StatusForbidden
		}},
		{who: bob, revoked: "bob", answer: shut},
		{who: trust.Identity{Kind: trust.Master, Name: "ann"}, revoked: "ann", answer: may(rights.Master)}, // masters are no principals
		{who: trust.Identity{Kind: trust.Master, Name: "m1"}, revoked: "-", answer: may(rights.Master)},
	}
	served := map[string]bool{}
	for pattern := range build(&Config{}).front.routes() {
		call := "agent " + pattern
		served[call] = true
		row, has := rights.RowOf(call)
		if !has {
			t.Errorf("%s is served and has no row in the table", call)
		}
		for i, try := range tries {
			a := build(&Config{})
			if !try.plain {
				a.config.Identify = func(context.Context) trust.Identity { return try.who }
			}
			switch try.revoked {
			case "-":
			case "":
				a.front.visitors.LetView("bob", true)
				a.front.visitors.EndTelling()
			default:
				a.front.visitors.LetView("bob", true)
				a.front.visitors.Revoke(try.revoked, time.Now())
				a.front.visitors.EndTelling()
			}
			answer := httptest.NewRecorder()
			a.front.guard().Hold(call, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })(answer, httptest.NewRequest("GET", "/", nil))
			want := try.answer(row)
			if slices.Contains(row.Kinds, rights.Nobody) {
				want = http.StatusTeapot
			}
			if counted := a.metrics.denied.Load() == 1; answer.Code != want || counted != (want != http.StatusTeapot) {
				t.Errorf("%s, try %d: answered %d instead of %d, counted as denied: %v", call, i, answer.Code, want, counted)
			}
			wanted := ""
			switch {
			case want != http.StatusForbidden:
			case try.who.Kind != trust.Master && try.revoked != "" && try.revoked == try.who.Name:
				wanted = "revoked"
			case row.Ticket != "":
				wanted = "ticket"
			}
			if !strings.Contains(answer.Body.String(), wanted) {
				t.Errorf("%s, try %d: answered %s, without the word %q", call, i, answer.Body, wanted)
			}
			if later := answer.Header().Get("Retry-After") != ""; later != (want == http.StatusServiceUnavailable) {
				t.Errorf("%s, try %d: says when to come back: %v", call, i, later)
			}
		}
	}
	for _, row := range rights.Table {
		if strings.HasPrefix(row.Call, "agent ") && !served[row.Call] {
			t.Errorf("%s has a row, and nobody serves it", row.Call)
		}
	}
}
