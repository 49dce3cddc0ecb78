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

// TestWhereEndpointsAre: those of all frameworks that have one, whoever asks; and nothing is counted to find them.
func TestWhereEndpointsAre(t *testing.T) {
	leader := briefly{list: []FrameworkBrief{
		{ID: "f1", Name: "jobs", State: Removed}, {ID: "f2", Name: "jobs", State: Disconnected, Roles: []api.Role{"eng", "ops"}},
		{ID: "f3", Name: "other", State: Active, Roles: []api.Role{"ops"}}, {ID: "f4", Name: "jobs", State: Active},
	}}
	known := &registry.State{Frameworks: map[api.FrameworkID]registry.Framework{}}
	for _, one := range leader.list[:3] { // the fourth serves nothing
		known.Frameworks[one.ID] = registry.Framework{Framework: api.Framework{Name: one.Name, Endpoints: map[string]string{"jobs": "at-" + string(one.ID)}}}
	}
	want := []Endpoint{{"f2", "jobs", "eng", "at-f2", false}, {"f3", "other", "ops", "at-f3", true}}
	for _, sees := range []rights.Scope{rights.All(), {}} {
		if got := (Cluster{Registry: known, Leader: leader, Sees: sees}).Endpoints("jobs"); !slices.Equal(got, want) {
			t.Errorf("%v; wanted %v", got, want)
		}
	}
}
