package api_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

func TestZoneAndRegionAreAttributes(t *testing.T) {
	agent := api.Agent{Zone: "z1", Region: "eu", Attributes: map[string]string{"rack": "r1", "region": "north"}}
	for _, test := range []struct {
		attribute, value string
		has              bool
	}{
		{"rack", "r1", true}, {"rack", "r2", false}, {"zone", "z1", true}, {"zone", "z2", false},
		{"region", "north", true}, {"region", "eu", false}, // the agent's own attribute goes before its region
		{"disk", "", false},
	} {
		if agent.Has(test.attribute, test.value) != test.has {
			t.Errorf("%s=%s: %v", test.attribute, test.value, !test.has)
		}
	}
}
