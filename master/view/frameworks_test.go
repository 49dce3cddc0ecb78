package view

import (
	"iter"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
)

// briefly is a leader that is asked for the briefs of its frameworks, and for nothing that costs more.
type briefly struct {
	Leader
	list []FrameworkBrief
}

func (b briefly) Frameworks() iter.Seq[FrameworkBrief] { return slices.Values(b.list) }

// TestWhereAnEndpointIs: that of an active framework of the name; and nothing is counted to find it.
func TestWhereAnEndpointIs(t *testing.T) {
	leader := briefly{list: []FrameworkBrief{
		{ID: "f1", Name: "jobs", State: Removed}, {ID: "f2", Name: "jobs", State: Disconnected}, {ID: "f3", Name: "jobs", State: Active},
		{ID: "f4", Name: "jobs", State: Active}, {ID: "f5", Name: "others", State: Active}, {ID: "f6", Name: "jobs", State: Active},
	}}
	known := &registry.State{Frameworks: map[api.FrameworkID]registry.Framework{}}
	for _, one := range leader.list[:5] { // the sixth serves nothing
		known.Frameworks[one.ID] = registry.Framework{Framework: api.Framework{Name: one.Name, Endpoints: map[string]string{"jobs": "at-" + string(one.ID)}}}
	}
	for _, story := range []struct {
		of      []FrameworkBrief
		sees    rights.Scope
		address string
		active  bool
	}{
		{leader.list, rights.All(), "at-f3", true},
		{leader.list[:2], rights.All(), "at-f2", false},
		{leader.list[:1], rights.All(), "", false},
		{leader.list[4:], rights.All(), "", false},
		{leader.list, rights.Scope{}, "", false},
	} {
		c := Cluster{Registry: known, Leader: briefly{list: story.of}, Sees: story.sees}
		if address, of, active := c.Endpoint("jobs", "jobs"); address != story.address || active != story.active || (of == "") != (address == "") {
			t.Errorf("of %v: %q of %q, active %v; wanted %q, %v", story.of, address, of, active, story.address, story.active)
		}
	}
}
