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
