package locality

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// shapesPerJobMax bounds the sizes of tasks that a job's demand tells apart; the rest
// of the queue is stated when these have run.
const shapesPerJobMax = 8

// Demand states what the queued tasks want in the role, so that masters need not offer
// what would be let pass: one shape for each job and size of task, with preferred agents;
// with [Config.Withhold] nothing but those while the job holds out for them, and the
// wait begins by stating it.
// A shape asks for a task with its executor ([pack.Ask]): where that runs already, what
// has room for the task alone is not offered on its account.
// State it anew when tasks were added or launched, and when [Delay.NextChange] is over.
func (d *Delay) Demand(role api.Role) api.Demand {
	now := time.Now()
	demand := api.Demand{Role: role}
	for _, j := range d.order {
		demand.Shapes = append(demand.Shapes, d.shapes(j, now)...)
	}
	demand.Shapes = demand.Shapes[:min(len(demand.Shapes), api.DemandsPerRoleMax)]
	return demand
}

// shape is one that is being gathered.
type shape struct {
	api.Shape
	preferred map[api.AgentID]bool
}

func (d *Delay) shapes(j *job, now time.Time) []api.Shape {
	var gathered []*shape
	withhold := d.config.Withhold
	if withhold && len(j.all.items) > 0 {
		j.wait(now)
	}
	j.advance(now)
	for _, p := range j.all.items {
		agents, all := d.agentsOf(p)
		gathered = gather(gathered, p, agents, withhold && j.level == Node && all)
	}
	for _, p := range j.home.items {
		gathered = gather(gathered, p, nil, false)
	}
	shapes := make([]api.Shape, len(gathered))
	for i, one := range gathered {
		shapes[i] = one.Shape
	}
	return shapes
}

// gather adds a task to the shape of its size.
func gather(shapes []*shape, p *pending, agents []api.AgentID, only bool) []*shape {
	if p.taken {
		return shapes
	}
	for _, one := range shapes {
		if one.OnlyPreferred == only && one.Resources.Equal(p.ask) {
			one.Count++
			one.prefer(agents)
			return shapes
		}
	}
	if len(shapes) == shapesPerJobMax {
		return shapes
	}
	one := &shape{Shape: api.Shape{Resources: p.ask, Count: 1, OnlyPreferred: only}, preferred: make(map[api.AgentID]bool)}
	one.prefer(agents)
	return append(shapes, one)
}

func (s *shape) prefer(agents []api.AgentID) {
	for _, agent := range agents {
		if !s.preferred[agent] {
			s.preferred[agent] = true
			s.Preferred = append(s.Preferred, agent)
		}
	}
}

// agentsOf are the agents that the task prefers by name, by host or by place, as far as offers
// have shown who is there; all: it prefers no others. A demand names agents alone, and who is
// in a place is never known for sure.
func (d *Delay) agentsOf(p *pending) (agents []api.AgentID, all bool) {
	all = len(p.nodes) > 0
	for _, node := range p.nodes {
		if agent, is := agentOf(node); is {
			agents = append(agents, agent)
			continue
		}
		there := d.hosts[strings.TrimPrefix(node, hostNode(""))]
		agents = append(agents, slices.Sorted(maps.Keys(there))...)
		all = all && len(there) > 0
	}
	if len(p.nodes) > 0 {
		return agents, all
	}
	for _, place := range p.places {
		for _, node := range slices.Sorted(maps.Keys(d.members[place])) {
			if agent, is := agentOf(node); is {
				agents = append(agents, agent)
			}
		}
	}
	return agents, false
}

func agentOf(node string) (api.AgentID, bool) {
	agent, ok := strings.CutPrefix(node, agentNode(""))
	return api.AgentID(agent), ok
}

// NextChange is how long until time alone takes some job to its next level, so that
// kept offers and the demand should be looked at again; 0: that is not in sight.
func (d *Delay) NextChange() time.Duration {
	now := time.Now()
	var least time.Duration
	for _, j := range d.order {
		if left := j.untilNext(now); left > 0 && (least == 0 || left < least) {
			least = left
		}
	}
	return least
}
