package guard

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// TestSharesOfAPrincipal: a principal that has everything that it may have is refused until some of it has ended, and
// does not hinder others.
func TestSharesOfAPrincipal(t *testing.T) {
	metrics := prometheus.NewRegistry()
	g, err := New(Access{AuditLog: "off"}, "", zerolog.Nop(), nil, nil, metrics)
	if err != nil {
		t.Fatal(err)
	}
	as := func(kind rights.Kind, name string) context.Context {
		return context.WithValue(t.Context(), permitKey{}, permit{caller: rights.Caller{Kind: kind, Name: name}})
	}
	etl, web, most := as(rights.Framework, "etl"), as(rights.Framework, "web"), 3
	var leaves []func()
	for range most {
		leave, err := g.Share(etl, "streams", most)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if _, err := g.Share(etl, "streams", most); !api.Is(err, api.Limit) || api.RetryAfter(err) != BusyRetry {
		t.Errorf("one more than it may have: %v", err)
	}
	if _, err := g.Share(as(rights.Person, "etl"), "streams", most); !api.Is(err, api.Limit) {
		t.Errorf("the same principal as a person: %v", err)
	}
	for what, try := range map[string]func() (func(), error){
		"another principal":    func() (func(), error) { return g.Share(web, "streams", most) },
		"something else of it": func() (func(), error) { return g.Share(etl, "calls", most) },
	} {
		leave, err := try()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		leave()
	}
	for range most + 1 { // an agent has a session, and a master what it needs
		if _, err := g.Share(as(rights.Agent, "a1"), "streams", most); err != nil {
			t.Fatal(err)
		}
	}
	leaves[0]()
	if leave, err := g.Share(etl, "streams", most); err != nil {
		t.Errorf("after one has ended: %v", err)
	} else {
		leave()
	}
	const want = `# HELP tender_audit_unwritten_total Changes and denials whose line could not be written to the audit log, as on a full disk.
# TYPE tender_audit_unwritten_total counter
tender_audit_unwritten_total 0
# HELP tender_principal_limited_total Calls that were refused because their principal had too many under way, by what of, and by which.
# TYPE tender_principal_limited_total counter
tender_principal_limited_total{of="streams",principal="etl"} 2
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	leaves[1]()
	leaves[2]()
	if len(g.shares.held) > 0 {
		t.Errorf("when all has ended %v is held", g.shares.held)
	}
}
