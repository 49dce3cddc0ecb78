package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// TestAVolumeIsOfferedWhole: R55. A demand that names a volume, whatever part of it, is offered the whole volume where it is, and nothing elsewhere.
// Without it the reason names the volume.
func TestAVolumeIsOfferedWhole(t *testing.T) {
	e := New(allocator.Config{}, byShare)
	const home = "cpus:4;mem:4096;disk(web,dynamic,volume=v1):100"
	for id, has := range map[api.AgentID]string{"a1": "cpus:4;mem:4096;disk:500", "a2": home} {
		e.SetAgent(allocator.Agent{ID: id, Total: api.MustParseResources(has), Offerable: true})
	}
	e.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f", Roles: []api.Role{"web/x", "other"}}, Active: true})
	wants := func(volume string) []api.Shape {
		return []api.Shape{{Resources: api.MustParseResources("cpus:1;mem:32;disk(web/x,dynamic,volume=" + volume + "):0.001"), Count: 2}}
	}
	e.SetDemand("f", "web/x", wants("v1"))
	e.SetDemand("f", "other", wants("v1"))
	offers := e.Allocate(time.Unix(0, 0)).Offers
	if len(offers) != 1 || offers[0].Agent != "a2" || offers[0].Resources.String() != "cpus:1;disk(web,dynamic,volume=v1):100;mem:32" {
		t.Fatalf("offered is %v", offers)
	}
	because := func(want string) {
		t.Helper()
		if got := strings.Join(e.Explain("f", "", time.Unix(0, 0)).Reasons, "\n"); !strings.Contains(got, want) {
			t.Errorf("it is told\n%s\nwanted %q", got, want)
		}
	}
	because("volume v1 is in use")
	because("a1 has no volume v1 that role web/x may use")
	because("in role other: 2 of 2 agents lack the volume")
	e.SetDemand("f", "web/x", wants("v2"))
	because("in role web/x: a1 has no volume v2 that role web/x may use")
}
