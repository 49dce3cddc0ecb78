package reserving_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/view"
)

func disk(mb int64) api.Resources {
	return api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: api.MilliOf(float64(mb))})
}

// TestThereAndBack: what is reserved and made a volume is plain again when both are undone, in the offers and on the
// agent.
func TestThereAndBack(t *testing.T) {
	for _, tag := range []string{"", "ann"} {
		v := reserving.New("web", disk(100), api.Resources{}, nil)
		for _, operation := range []api.Operation{
			{Kind: api.OpReserve, Resources: disk(80), Tag: tag},
			{Kind: api.OpCreate, Volume: "v1", Size: api.MilliOf(50), Tag: tag},
			{Kind: api.OpDestroy, Volume: "v1"},
			{Kind: api.OpUnreserve, Resources: disk(80), Tag: tag},
		} {
			if err := v.Apply(operation); err != nil {
				t.Fatalf("%v: %v", operation.Kind, err)
			}
		}
		if !v.Left.Equal(disk(100)) || !v.Reserved.IsZero() || v.Destroyed["v1"].Scalar != api.MilliOf(50) {
			t.Errorf("%v is left, %v is reserved, %v was destroyed", v.Left, v.Reserved, v.Destroyed)
		}
	}
}

// TestATagKeepsReservationsApart: what is reserved with one tag is neither unreserved nor made a volume by another, and
// who names no labels is given none of it. (R91)
func TestATagKeepsReservationsApart(t *testing.T) {
	v := reserving.New("web", disk(100), api.Resources{}, nil)
	if err := v.Apply(api.Operation{Kind: api.OpReserve, Resources: disk(80), Tag: "ann"}); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []api.Operation{
		{Kind: api.OpUnreserve, Resources: disk(80)},
		{Kind: api.OpUnreserve, Resources: disk(80), Tag: "bob"},
		{Kind: api.OpCreate, Volume: "v1", Size: api.MilliOf(50)},
		{Kind: api.OpReserve, Resources: disk(20), Tag: "a,b"},
	} {
		if err := v.Apply(operation); err == nil {
			t.Errorf("%+v was done", operation)
		}
	}
	if _, _, fits := v.Left.Carve(disk(21)); fits {
		t.Errorf("of %v, more was taken than has no tag", v.Left)
	}
	if taken, _, fits := v.Left.Carve(disk(20)); !fits || !taken.Equal(disk(20)) {
		t.Errorf("of %v, %v was taken", v.Left, taken)
	}
}

// TestNothingIsMadeOfOrphans: while the data of a volume is there, no other of its ID is made; what can't be done
// changes nothing.
func TestNothingIsMadeOfOrphans(t *testing.T) {
	orphans := map[api.VolumeID]*reserving.Orphan{"v1": {OrphanedVolume: view.OrphanedVolume{Volume: api.Resource{Label: api.Label{Volume: "v1"}}}}}
	v := reserving.New("web", disk(100), api.Resources{}, orphans)
	if err := v.Apply(api.Operation{Kind: api.OpReserve, Resources: disk(80)}); err != nil {
		t.Fatal(err)
	}
	left, reserved := v.Left, v.Reserved
	err := v.Apply(api.Operation{Kind: api.OpCreate, Volume: "v1", Size: api.MilliOf(50)})
	if err == nil || !strings.Contains(err.Error(), "orphaned volume v1") {
		t.Errorf("a volume was made in an orphan's place: %v", err)
	}
	if err = v.Apply(api.Operation{Kind: api.OpCreate, Volume: "v2", Size: api.MilliOf(81)}); err == nil {
		t.Error("81 MB of 80 were made a volume")
	}
	if !v.Left.Equal(left) || !v.Reserved.Equal(reserved) {
		t.Errorf("what was refused has changed %v and %v", v.Left, v.Reserved)
	}
}
