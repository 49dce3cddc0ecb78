package allocator

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Updated holds the costs of AddAndUpdateSlave: agents are added, each with resources in use; all get ten revocable
// cpus; then all get another total.
type Updated struct {
	Add, AddCycle         time.Duration
	Revocable, SecondLook time.Duration
	Total, TotalCycle     time.Duration
}

// AddAndUpdate adds agents with resources in use, then changes each of them twice. After each step everything is
// offered once.
func AddAndUpdate(fresh New, agents, frameworks int) (Updated, error) {
	defer pinned()()
	policy := fresh()
	w := &World{Policy: policy, Now: time.Unix(0, 0), Agents: agents, Frameworks: frameworks}
	for i := range frameworks {
		policy.SetFramework(allocator.Framework{Framework: api.Framework{ID: w.Framework(i), Roles: []api.Role{Role}, Revocable: true}, Active: true})
	}
	total, used := must("cpus:2;mem:1024;disk:4096;ports:[31000-32000]"), must("cpus:1;mem:128;disk:1024;ports:[31000-31009,31100-31109,31200-31209,31300-31309]")
	spare := api.NewResources(api.Resource{Label: api.Label{Name: "cpus", Revocable: true}, Scalar: 10_000})
	set := func(total api.Resources) time.Duration {
		start := CPU()
		for i := range agents {
			policy.SetAgent(allocator.Agent{ID: w.Agent(i), Total: total, Offerable: true})
		}
		return CPU() - start
	}
	var u Updated
	start := CPU()
	set(total)
	for i := range agents {
		policy.Take(allocator.Claim{Framework: w.Framework(i % frameworks), Role: Role, Agent: w.Agent(i), Resources: used, Task: api.TaskID(w.Agent(i)), Since: w.Now})
	}
	u.Add = CPU() - start
	var err error
	cycle := func() time.Duration {
		w.GiveBack(0)
		took := w.Cycle()
		if len(w.Offers) != agents && err == nil {
			err = fmt.Errorf("%d of %d agents were offered", len(w.Offers), agents)
		}
		return took
	}
	u.AddCycle = cycle()
	u.Revocable = set(total.Plus(spare))
	u.SecondLook = cycle()
	u.Total = set(total.Plus(must("cpus:1;mem:1024")))
	u.TotalCycle = cycle()
	return u, err
}

// String writes for each step the time of the change, and then that of the cycle after it.
func (u Updated) String() string {
	return fmt.Sprintf("add %s + cycle %s; 10 revocable cpus each %s + %s; other total %s + %s",
		short(u.Add), short(u.AddCycle), short(u.Revocable), short(u.SecondLook), short(u.Total), short(u.TotalCycle))
}

// DeclineEarly plays the first cycles of DeclineOffers: every offer is declined for a year, until there are filtersMax
// filters.
func DeclineEarly(fresh New, agents, frameworks, filtersMax int) (Sample, error) {
	defer pinned()()
	w := NewWorld(fresh(), agents, frameworks)
	var early Sample
	for filters := 0; filters < filtersMax && len(early) < 2*frameworks; filters += agents {
		early = append(early, w.Cycle())
		if want := agents; len(w.Offers) != want && len(early) <= frameworks {
			return nil, fmt.Errorf("%d of %d agents were offered", len(w.Offers), want)
		}
		w.GiveBack(365 * 24 * time.Hour)
	}
	return early, nil
}

// SuppressSteps plays SuppressOffers: five cycles, before each of which a further fifth of the frameworks suppresses
// offers. In the last one nothing is offered.
func SuppressSteps(fresh New, agents, frameworks int) (Sample, error) {
	defer pinned()()
	w := NewWorld(fresh(), agents, frameworks)
	w.Cycle()
	var steps Sample
	done := 0
	for step := 1; step <= 5; step++ {
		start := CPU()
		for ; done < frameworks*step/5; done++ {
			w.Policy.Suppress(w.Framework(done), nil)
		}
		took := CPU() - start
		w.GiveBack(0)
		steps = append(steps, took+w.Cycle())
		want := agents
		if done == frameworks {
			want = 0
		}
		if len(w.Offers) != want {
			return nil, fmt.Errorf("%d of %d frameworks suppressed: %d of %d agents were offered", done, frameworks, len(w.Offers), agents)
		}
	}
	return steps, nil
}

// Sorted holds the costs of FullSort.
type Sorted struct {
	AddClients, AddAgents, Allocate, FullSort, NoOp, Unallocate, Remove time.Duration
}

// FullSort plays Mesos's benchmark of its sorter. Clients and agents are added, and each agent is allocated (16 cpus
// and a hundred fragments of ports). Everything is sorted because the cluster's total has changed, sorted again without
// a change, and then removed.
func FullSort(fresh New, agents, clients int) Sorted {
	defer pinned()()
	policy := fresh()
	w := &World{Policy: policy, Now: time.Unix(0, 0), Agents: agents, Frameworks: clients}
	timed := func(do func()) time.Duration {
		start := CPU()
		do()
		return CPU() - start
	}
	var fragments []api.Range
	for i := range uint64(100) {
		fragments = append(fragments, api.Range{Begin: 31000 + 10*i, End: 31000 + 10*i + 4})
	}
	total := must("cpus:24;mem:4096;disk:4096;ports:[31000-32000]")
	used := must("cpus:16;mem:2014;disk:1024").Plus(api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(fragments...)}))
	claim := func(i int) allocator.Claim {
		return allocator.Claim{Framework: w.Framework(i % clients), Role: Role, Agent: w.Agent(i), Resources: used, Task: api.TaskID(w.Agent(i)), Since: w.Now}
	}
	var s Sorted
	s.AddClients = timed(func() {
		for i := range clients {
			policy.SetFramework(allocator.Framework{Framework: api.Framework{ID: w.Framework(i), Roles: []api.Role{Role}}, Active: true})
		}
	})
	// The agents can't be offered, so that what follows is sorting and not offering.
	s.AddAgents = timed(func() {
		for i := range agents {
			policy.SetAgent(allocator.Agent{ID: w.Agent(i), Total: total})
		}
	})
	s.Allocate = timed(func() {
		for i := range agents {
			policy.Take(claim(i))
		}
	})
	policy.SetAgent(allocator.Agent{ID: "one-more", Total: total, Offerable: true})
	s.FullSort = w.Cycle()
	s.NoOp = w.Cycle()
	s.Unallocate = timed(func() {
		for i := range agents {
			policy.Return(claim(i))
		}
	})
	s.Remove = timed(func() {
		w.GiveBack(0)
		for i := range clients {
			policy.RemoveFramework(w.Framework(i))
		}
	})
	return s
}

// String writes the steps in their order.
func (s Sorted) String() string {
	return fmt.Sprintf("add clients %s, agents %s, allocate %s, full sort and one offer %s, no-op %s, unallocate %s, remove %s", short(s.AddClients),
		short(s.AddAgents), short(s.Allocate), short(s.FullSort), short(s.NoOp), short(s.Unallocate), short(s.Remove))
}
