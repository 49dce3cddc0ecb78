package core_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

func fairshare() allocator.Allocator { return newTwin() }

// twin is the simplest allocator that keeps its books: whatever is free of an agent goes
// to the framework that holds least.
type twin struct {
	agents     map[api.AgentID]allocator.Agent
	taken      map[api.AgentID]api.Resources
	frameworks map[api.FrameworkID]allocator.Framework
	quiet      map[api.FrameworkID]bool
	demand     map[api.FrameworkID][]api.Shape
	held       map[api.FrameworkID]api.Milli
	filters    map[string]time.Time
	limits     map[api.Role]bool
	hold       bool
}

func newTwin() *twin {
	return &twin{
		agents: map[api.AgentID]allocator.Agent{}, taken: map[api.AgentID]api.Resources{},
		frameworks: map[api.FrameworkID]allocator.Framework{}, quiet: map[api.FrameworkID]bool{},
		demand: map[api.FrameworkID][]api.Shape{}, held: map[api.FrameworkID]api.Milli{},
		filters: map[string]time.Time{}, limits: map[api.Role]bool{},
	}
}

func (p *twin) SetAgent(a allocator.Agent)                { p.agents[a.ID] = a }
func (p *twin) RemoveAgent(id api.AgentID)                { delete(p.agents, id); delete(p.taken, id) }
func (p *twin) SetFramework(f allocator.Framework)        { p.frameworks[f.ID] = f }
func (p *twin) RemoveFramework(id api.FrameworkID)        { delete(p.frameworks, id) }
func (p *twin) SetRole(r allocator.Role)                  { p.limits[r.Role] = !r.Limit.IsZero() }
func (p *twin) Hold(on bool)                              { p.hold = on }
func (p *twin) Launch(allocator.Claim)                    {}
func (p *twin) Use(api.AgentID, api.Resources)            {}
func (p *twin) Wake() time.Time                           { return time.Time{} }
func (p *twin) Shares() allocator.Shares                  { return allocator.Shares{} }
func (p *twin) Suppress(id api.FrameworkID, _ []api.Role) { p.quiet[id] = true }
func (p *twin) Revive(id api.FrameworkID, _ []api.Role)   { delete(p.quiet, id); clear(p.filters) }

func (p *twin) SetDemand(id api.FrameworkID, _ api.Role, shapes []api.Shape) { p.demand[id] = shapes }

func (p *twin) Take(c allocator.Claim) {
	p.taken[c.Agent] = p.taken[c.Agent].Plus(c.Resources)
	p.held[c.Framework] += c.Resources.Scalar("cpus")
}

func (p *twin) Return(c allocator.Claim) {
	p.taken[c.Agent] = p.taken[c.Agent].Without(c.Resources)
	p.held[c.Framework] -= c.Resources.Scalar("cpus")
}

func (p *twin) Refuse(c allocator.Claim, until time.Time) {
	p.filters[string(c.Framework)+string(c.Agent)] = until
}

func (p *twin) Allocate(now time.Time) allocator.Allocation {
	var made allocator.Allocation
	for _, id := range slices.Sorted(maps.Keys(p.agents)) {
		free := p.agents[id].Total.Without(p.taken[id])
		if !p.agents[id].Offerable || free.Scalar("cpus") < 10 {
			continue
		}
		var best *allocator.Framework
		for _, fid := range slices.Sorted(maps.Keys(p.frameworks)) {
			f := p.frameworks[fid]
			wants := p.demand[fid] == nil || len(p.demand[fid]) > 0
			if !f.Active || p.quiet[fid] || !wants || now.Before(p.filters[string(fid)+string(id)]) || p.hold && p.limits[f.Roles[0]] {
				continue
			}
			if best == nil || p.held[fid] < p.held[best.ID] {
				best = &f
			}
		}
		if best != nil {
			claim := allocator.Claim{Framework: best.ID, Role: best.Roles[0], Agent: id, Resources: free}
			p.Take(claim)
			made.Offers = append(made.Offers, claim)
		}
	}
	return made
}

func (p *twin) Explain(id api.FrameworkID, agent api.AgentID, _ time.Time) allocator.Explanation {
	return allocator.Explanation{Reasons: []string{fmt.Sprintf("twin %s %s", id, agent)}}
}
