// Package allocator measures allocators on the shapes with which Mesos measured its own
// (hierarchical_allocator_tests.cpp and hierarchical_allocator_benchmarks.cpp), prints
// the figures beside those known for Mesos, and draws how they grow. It holds no
// figures of ours: those are made anew each time.
package allocator_test

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// World is a cluster as in Mesos's benchmarks: agents of 24 cpus, 4 GB of memory and disk, and a thousand ports. Of
// these, 16 cpus, half of the memory, a quarter of the disk and 16 ranges of ports are in use by the frameworks in
// rotation.
type World struct {
	Policy     allocator.Allocator
	Now        time.Time
	Agents     int
	Frameworks int
	Offers     []allocator.Claim // open offers

	Adding time.Duration // how long adding the agents took, each with its task
}

// Role is the role of all frameworks of a world.
const Role = api.DefaultRole

// NewWorld makes a world with a new allocator.
func NewWorld(policy allocator.Allocator, agents, frameworks int) *World {
	w := &World{Policy: policy, Now: time.Unix(0, 0), Agents: agents, Frameworks: frameworks}
	for i := range frameworks {
		policy.SetFramework(allocator.Framework{Framework: api.Framework{ID: w.Framework(i), Roles: []api.Role{Role}}, Active: true})
	}
	total, used := must("cpus:24;mem:4096;disk:4096;ports:[31000-32000]"), InUse()
	start := time.Now()
	for i := range agents {
		id := w.Agent(i)
		policy.SetAgent(allocator.Agent{ID: id, Hostname: string(id), Total: total, Offerable: true})
		policy.Take(allocator.Claim{Framework: w.Framework(i % frameworks), Role: Role, Agent: id, Resources: used, Task: api.TaskID(id), Since: w.Now})
	}
	w.Adding = time.Since(start)
	return w
}

// InUse returns what is in use on every agent.
func InUse() api.Resources {
	ports := make([]api.Range, 16)
	for i := range ports {
		ports[i] = api.Range{Begin: uint64(31000 + 50*i), End: uint64(31000 + 50*i + 9)}
	}
	return must("cpus:16;mem:2014;disk:1024").Plus(api.NewResources(api.Resource{
		Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(ports...),
	}))
}

func must(text string) api.Resources {
	resources, err := api.ParseResources(text)
	if err != nil {
		panic(err) // a constant of this package is wrong
	}
	return resources
}

// Agent returns the ID of agent i.
func (w *World) Agent(i int) api.AgentID { return api.AgentID(fmt.Sprintf("agent-%d", i)) }

// Framework returns the ID of framework i.
func (w *World) Framework(i int) api.FrameworkID {
	return api.FrameworkID(fmt.Sprintf("framework-%d", i))
}

// Cycle allocates once, a second after the last time, and returns how much processor time that took.
func (w *World) Cycle() time.Duration {
	w.Now = w.Now.Add(time.Second)
	start := CPU()
	made := w.Policy.Allocate(w.Now)
	took := CPU() - start
	w.Offers = append(w.Offers, made.Offers...)
	return took
}

// GiveBack declines all open offers with a filter of that duration (0 = none).
func (w *World) GiveBack(refuse time.Duration) time.Duration {
	start := time.Now()
	for _, offer := range w.Offers {
		w.Policy.Return(offer)
		if refuse > 0 {
			w.Policy.Refuse(offer, w.Now.Add(refuse))
		}
	}
	w.Offers = w.Offers[:0]
	return time.Since(start)
}

// Suppress suppresses all but one of n frameworks.
func (w *World) Suppress(n int) {
	for i := range w.Frameworks {
		if i%n != 0 {
			w.Policy.Suppress(w.Framework(i), nil)
		}
	}
}
