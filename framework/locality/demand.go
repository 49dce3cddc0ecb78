package locality

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// shapesPerJobMax bounds how many sizes of tasks a job's demand distinguishes. The rest of the queue is stated when
// tasks of these sizes have been launched.
const shapesPerJobMax = 8

// Demand states what the queued tasks want in the role, so that the masters need not offer what the job would let pass.
// It has one shape for each job and size of task, with the preferred agents. With [Config.Withhold] only these agents
// are to be offered as long as the job waits for them, and the wait begins when the demand is stated.
//
// A shape asks for a task together with its executor ([pack.Ask]), so room for the task alone, on an agent where the
// executor runs already, is not offered because of it.
//
// State the demand anew when tasks were added or launched, and when [Delay.NextChange] is over.
func (d *Delay) Demand(role api.Role) api.Demand {
	now := time.Now()
	demand := api.Demand{Role: role}
	for _, j := range d.order {
		demand.Shapes = append(demand.Shapes, d.shapesOf(j, now)...)
	}
	demand.Shapes = demand.Shapes[:min(len(demand.Shapes), api.DemandsPerRoleMax)]
	return demand
}

// shape is a shape of the demand while it is being gathered.
type shape struct {
	api.Shape
	preferred map[api.AgentID]bool
}

func (d *Delay) shapesOf(j *job, now time.Time) []api.Shape {
	var gathered []*shape
	withhold := d.config.Withhold
	if withhold && len(j.all.items) > 0 {
		j.beginWait(now)
	}
	j.advanceLevel(now)
	for _, p := range j.all.items {
		agents, all := d.agentsOf(p)
		gathered = gather(gathered, p, agents, withhold && j.level == Node && all)
	}
	for _, p := range j.home.items {
		gathered = gather(gathered, p, nil, false)
	}
	shapes := make([]api.Shape, len(gathered))
	for i, shape := range gathered {
		shapes[i] = shape.Shape
	}
	return shapes
}

// gather adds a task to the shape of its size, or to a new one.
func gather(shapes []*shape, p *pending, agents []api.AgentID, only bool) []*shape {
	if p.taken {
		return shapes
	}
	for _, known := range shapes {
		if known.OnlyPreferred == only && known.Resources.Equal(p.ask) {
			known.Count++
			known.prefer(agents)
			return shapes
		}
	}
	if len(shapes) == shapesPerJobMax {
		return shapes
	}
	added := &shape{Shape: api.Shape{Resources: p.ask, Count: 1, OnlyPreferred: only}, preferred: make(map[api.AgentID]bool)}
	added.prefer(agents)
	return append(shapes, added)
}

func (s *shape) prefer(agents []api.AgentID) {
	for _, agent := range agents {
		if !s.preferred[agent] {
			s.preferred[agent] = true
			s.Preferred = append(s.Preferred, agent)
		}
	}
}

// agentsOf returns the agents that the task prefers by name, by host or by place, as far as offers have shown which
// agents are there. all: these are all the agents that it prefers. all is false while no offer has shown an agent on a
// preferred host. It is also false for a task that prefers only places, because it is never certain that all agents of
// a place are known.
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

// NextChange returns how long it takes until some job moves to its next level by time alone. Then look again at kept
// offers and at the demand. 0: no such change is in sight.
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
