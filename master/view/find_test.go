package view

import (
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// TestAHostThatHasComeBack: the name of a host means the agent that is there now, not one that is gone, as long as there
// is one.
func TestAHostThatHasComeBack(t *testing.T) {
	state := registry.New()
	state.Agents = map[api.AgentID]registry.Agent{}
	c := Cluster{Registry: state}
	add := func(id api.AgentID, marks api.Mark) {
		state.Agents[id] = registry.Agent{Agent: api.Agent{ID: id, Hostname: "a2"}, Marks: marks}
	}
	for _, step := range []struct {
		id    api.AgentID
		marks api.Mark
		want  api.AgentID // "" = it is not clear
	}{{"agent-3", api.MarkGone, "agent-3"}, {"agent-6", 0, "agent-6"}, {"agent-9", api.MarkGone, "agent-6"}, {"agent-12", 0, ""}} {
		add(step.id, step.marks)
		if got, err := c.FindAgent("test", "a2", Whole); got != step.want || (err != nil) != (step.want == "") {
			t.Errorf("with %s, a2 means %q (%v), and not %q", step.id, got, err, step.want)
		}
	}
}
