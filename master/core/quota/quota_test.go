package quota_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/quota"
	"github.com/tenderhq/tender/master/registry"
)

// TestNested: what is guaranteed below a role fits in its guarantee; further down it is part of what stands above it.
func TestNested(t *testing.T) {
	roles := map[api.Role]registry.Role{
		"web":         {Guarantee: api.Scalars(4, 4096)},
		"web/shop":    {Guarantee: api.Scalars(3, 1024)},
		"web/shop/eu": {Guarantee: api.Scalars(2, 1024)},
	}
	if err := quota.CheckNested(roles, "web/blog", registry.Role{Guarantee: api.Scalars(1, 1024)}); err != nil {
		t.Error(err)
	}
	err := quota.CheckNested(roles, "web/blog", registry.Role{Guarantee: api.Scalars(2, 1024)})
	if err == nil || !strings.Contains(err.Error(), "role web is less") {
		t.Errorf("5 cpus are guaranteed below 4: %v", err)
	}
	if _, there := roles["web/blog"]; there {
		t.Error("what was judged has changed the roles")
	}
}

// TestCapacity: no more is guaranteed than there is; less than before may always be said.
func TestCapacity(t *testing.T) {
	state := registry.New()
	state.Agents = map[api.AgentID]registry.Agent{"agent-1": {Agent: api.Agent{Resources: api.Scalars(4, 4096)}}}
	if err := quota.CheckCapacity(state, "web", registry.Role{Guarantee: api.Scalars(5, 1024)}); err == nil {
		t.Error("5 cpus of 4 are guaranteed")
	}
	state.Roles = map[api.Role]registry.Role{"web": {Guarantee: api.Scalars(8, 1024)}}
	if err := quota.CheckCapacity(state, "web", registry.Role{Guarantee: api.Scalars(6, 1024)}); err != nil {
		t.Errorf("less than before: %v", err)
	}
}

// TestLimitsNest: no role is given a limit above that of a role above it, because it could never reach it.
func TestLimitsNest(t *testing.T) {
	roles := map[api.Role]registry.Role{"par": {Limit: api.Scalars(2, 0)}}
	for limit, want := range map[string]bool{"cpus:5": false, "cpus:2": true, "mem:4096": true, "cpus:3;mem:1": false} {
		resources, err := quota.ParseLimit(limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range []api.Role{"par/kid", "par/kid/deeper"} {
			if err := quota.CheckLimit(roles, role, resources); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "role par,") {
				t.Errorf("limit %s of %s: %v", limit, role, err)
			}
		}
		if err := quota.CheckLimit(roles, "par", resources); err != nil {
			t.Errorf("its own limit: %v", err)
		}
	}
}

// TestLimitsCap: R54. The limit of a role is not lowered below one of a role below it, whatever way down that is; kinds that
// only one of them limits do not matter.
func TestLimitsCap(t *testing.T) {
	roles := map[api.Role]registry.Role{"par": {Limit: api.Scalars(9, 0)}, "par/kid/deeper": {Limit: api.Scalars(2, 512)}, "parent": {Limit: api.Scalars(9, 0)}}
	for limit, want := range map[string]bool{"cpus:1": false, "cpus:0": false, "cpus:2": true, "disk:1": true, "": true, "cpus:3;mem:511": false} {
		resources, err := quota.ParseLimit(limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range []api.Role{"par", "par/kid"} {
			if err := quota.CheckCapped(roles, role, resources); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "role par/kid/deeper,") {
				t.Errorf("limit %s of %s: %v", limit, role, err)
			}
		}
	}
}

// TestZeroIsALimit: a limit of zero holds, and is not taken for none.
func TestZeroIsALimit(t *testing.T) {
	for text, want := range map[string]string{"cpus:0": "cpus:0.001", "cpus:0;mem:512": "cpus:0.001;mem:512", "cpus:2": "cpus:2", "": "nothing"} {
		if limit, err := quota.ParseLimit(text); err != nil || limit.String() != want {
			t.Errorf("%q is %v, %v; want %s", text, limit, err, want)
		}
	}
}

// TestPortsOfNobody: ports that no agent has are not guaranteed, however many others there are.
func TestPortsOfNobody(t *testing.T) {
	ports := func(text string) registry.Role {
		resources, err := api.ParseResources("ports:" + text)
		if err != nil {
			t.Fatal(err)
		}
		return registry.Role{Guarantee: resources}
	}
	state := registry.New()
	state.Agents = map[api.AgentID]registry.Agent{
		"agent-1": {Agent: api.Agent{Resources: ports("[31000-31009]").Guarantee}}, "agent-2": {Agent: api.Agent{Resources: ports("[32000-32009]").Guarantee}},
	}
	if err := quota.CheckCapacity(state, "web", ports("[31005-31006,32000-32001]")); err != nil {
		t.Error(err)
	}
	if err := quota.CheckCapacity(state, "web", ports("[31009-31010]")); err == nil || !strings.Contains(err.Error(), "no agent has ports:[31010]") {
		t.Errorf("a port that no agent has: %v", err)
	}
}
