package engine

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// TestOtherPortsAreOffered: the limit of a role allows two ports. A framework that has refused the first two is offered
// others in the same round in which another framework is offered those.
func TestOtherPortsAreOffered(t *testing.T) {
	parse := func(text string) api.Resources {
		r, err := api.ParseResources(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	e := New(allocator.Config{}, byPriority)
	e.SetRole(allocator.Role{Role: "a", Priority: 1, Limit: parse("ports:[1-2]")})
	e.SetAgent(allocator.Agent{ID: "s1", Total: parse("cpus:2;mem:1024;ports:[1-5]"), Offerable: true})
	e.SetFramework(allocator.Framework{Framework: api.Framework{ID: "limited", Roles: []api.Role{"a"}}, Active: true})
	now := time.Unix(0, 0)
	offers := e.Allocate(now).Offers
	if len(offers) != 1 {
		t.Fatalf("offered: %v", offers)
	}
	e.Return(offers[0])
	e.Refuse(offers[0], now.Add(time.Second))
	e.SetFramework(allocator.Framework{Framework: api.Framework{ID: "capped", Roles: []api.Role{"b"}, MaxOffer: parse("cpus:1;ports:[1-3]")}, Active: true})
	offers = e.Allocate(now).Offers
	if len(offers) != 2 || offers[0].Framework != "capped" || offers[1].Framework != "limited" || offers[1].Resources.String() != "cpus:1;ports:[4-5]" {
		t.Errorf("offered: %v; want what is left to the limited one", offers)
	}
	if more := e.Allocate(now).Offers; len(more) > 0 {
		t.Errorf("the next round offers %v", more)
	}
}

// TestPortsTakeTurns: who asks for any port and gives it back is offered the next one, until it comes to the first again.
func TestPortsTakeTurns(t *testing.T) {
	e := New(allocator.Config{}, byPriority)
	e.SetAgent(allocator.Agent{ID: "s1", Total: api.MustParseResources("cpus:2;mem:1024;ports:[31000-31002]"), Offerable: true})
	e.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"a"}}, Active: true})
	e.SetDemand("f1", "a", []api.Shape{{Resources: api.MustParseResources("cpus:1;ports:1"), Count: 1}})
	now, got := time.Unix(0, 0), ""
	for range 4 {
		now = now.Add(time.Second)
		for _, offer := range e.Allocate(now).Offers {
			got += offer.Resources.RangesOf("ports").String()
			e.Return(offer)
		}
	}
	if want := "[31000][31001][31002][31000]"; got != want {
		t.Errorf("offered %s, want %s", got, want)
	}
}
