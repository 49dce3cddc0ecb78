package allocator_test

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Quotas plays LargeAndSmallQuota: one framework in each role, guarantees of <1 cpu, 1 GB, 1 GB> for small roles and of
// four times that for large ones, and agents that are just large enough. It returns how long the first cycle took, how
// long the idle one after it took, and whether all guarantees were met.
func Quotas(policy allocator.Allocator, small, large int) (first, idle time.Duration, met bool) {
	defer pinned()()
	for i := range small + large {
		guarantee := must("cpus:1;mem:1024;disk:1024")
		if i >= small {
			guarantee = must("cpus:4;mem:4096;disk:4096")
		}
		role := api.Role(fmt.Sprintf("role-%d", i))
		policy.SetRole(allocator.Role{Role: role, Guarantee: guarantee, Limit: guarantee})
		policy.SetFramework(allocator.Framework{Framework: api.Framework{ID: api.FrameworkID(role), Roles: []api.Role{role}}, Active: true})
	}
	for i := range small/5 + 5*large {
		policy.SetAgent(allocator.Agent{ID: api.AgentID(fmt.Sprintf("agent-%d", i)), Total: must("cpus:2;mem:2048;disk:2048"), Offerable: true})
	}
	now := time.Unix(0, 0)
	start := CPU()
	made := policy.Allocate(now)
	first = CPU() - start
	start = CPU()
	policy.Allocate(now.Add(time.Second))
	idle = CPU() - start
	got := make(map[api.Role]api.Resources)
	for _, o := range made.Offers {
		got[o.Role] = got[o.Role].Plus(o.Resources)
	}
	met = true
	for i := range small + large {
		want := must("cpus:1;mem:1024;disk:1024")
		if i >= small {
			want = must("cpus:4;mem:4096;disk:4096")
		}
		met = met && got[api.Role(fmt.Sprintf("role-%d", i))].Contains(want)
	}
	return first, idle, met
}
