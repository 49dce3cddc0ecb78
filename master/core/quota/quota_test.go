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
