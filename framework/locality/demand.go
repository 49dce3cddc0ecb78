package locality

import (
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
		demand.Shapes = append(demand.Shapes, j.shapes(now, d.config.Withhold)...)
	}
	demand.Shapes = demand.Shapes[:min(len(demand.Shapes), api.DemandsPerRoleMax)]
	return demand
}

// shape is one that is being gathered.
type shape struct {
	api.Shape
	preferred map[api.AgentID]bool
}

func (j *job) shapes(now time.Time, withhold bool) []api.Shape {
	var gathered []*shape
	if withhold && len(j.all.items) > 0 {
		j.wait(now)
	}
	j.advance(now)
	for _, p := range j.all.items {
		gathered = gather(gathered, p, withhold && j.level == Node && onlyAgents(p))
	}
	for _, p := range j.home.items {
		gathered = gather(gathered, p, false)
	}
	shapes := make([]api.Shape, len(gathered))
	for i, one := range gathered {
		shapes[i] = one.Shape
	}
	return shapes
}

// gather adds a task to the shape of its size.
func gather(shapes []*shape, p *pending, only bool) []*shape {
	if p.taken {
		return shapes
	}
	for _, one := range shapes {
		if one.OnlyPreferred == only && one.Resources.Equal(p.ask) {
			one.Count++
			one.prefer(p)
			return shapes
		}
	}
	if len(shapes) == shapesPerJobMax {
		return shapes
	}
	one := &shape{Shape: api.Shape{Resources: p.ask, Count: 1, OnlyPreferred: only}, preferred: make(map[api.AgentID]bool)}
	one.prefer(p)
	return append(shapes, one)
}

func (s *shape) prefer(p *pending) {
	for _, node := range p.nodes {
		if agent, ok := agentOf(node); ok && !s.preferred[agent] {
			s.preferred[agent] = true
			s.Preferred = append(s.Preferred, agent)
		}
	}
}

// onlyAgents: hosts and places can't be said in a demand.
func onlyAgents(p *pending) bool {
	for _, node := range p.nodes {
		if _, agent := agentOf(node); !agent {
			return false
		}
	}
	return len(p.nodes) > 0
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
