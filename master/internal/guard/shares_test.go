package guard

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/rights"
)

// TestSharesOfAPrincipal: one that has all that it may have is refused until something of it has ended, and is in nobody's way.
func TestSharesOfAPrincipal(t *testing.T) {
	g, err := New(Access{AuditLog: "off"}, "", zerolog.Nop(), nil, nil, prometheus.NewRegistry())
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
	if refused := testutil.ToFloat64(g.shares.refused); refused != 2 { // fails also when others were counted
		t.Errorf("%v refusals are counted; want two", refused)
	}
	leaves[1]()
	leaves[2]()
	if len(g.shares.held) > 0 {
		t.Errorf("when all has ended %v is held", g.shares.held)
	}
}
