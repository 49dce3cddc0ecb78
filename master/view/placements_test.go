package view

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/api"
)

func TestPlacementsAreCounted(t *testing.T) {
	var p Placements
	for _, placement := range []api.Placement{
		{}, {Level: api.PlacedNode, Waited: time.Second}, {Level: api.PlacedNode, Idle: time.Minute}, {Level: api.PlacedNear, Waited: -time.Second, Idle: -time.Minute},
		{Level: api.PlacedAny, Waited: math.MaxInt64, Idle: math.MaxInt64}, {Level: 9, Waited: time.Second},
	} {
		p.Count(placement)
	}
	want := Placements{Node: 2, Near: 1, Any: 1, Waited: time.Second + placementWaitMax, Longest: placementWaitMax,
		Idle: time.Minute + placementWaitMax}
	if diff := cmp.Diff(want, p); diff != "" || p.Tasks() != 4 {
		t.Errorf("%d tasks (-want +got):\n%s", p.Tasks(), diff)
	}
}
