package principals

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/master/view"
)

// TestSharesAreBounded: what the frameworks of one principal have counts together, and does not count for others.
func TestSharesAreBounded(t *testing.T) {
	shares := New(Limits{Tasks: 3, Shapes: 5})
	etl, web, nobody := shares.Of("etl"), shares.Of("web"), shares.Of("")
	for range 3 {
		if err := shares.Of("etl").RoomForTask(); err != nil {
			t.Error(err)
		}
		etl.Add(view.Tally{Tasks: 1})
		nobody.Add(view.Tally{Tasks: 1000})
	}
	if err := etl.RoomForTask(); err == nil || !strings.Contains(err.Error(), `principal "etl" have 3 tasks, and may have 3`) {
		t.Errorf("a fourth task: %v", err)
	}
	etl.Add(view.Tally{Frameworks: 1, Shapes: 4})
	if err := etl.RoomForShapes(2); err == nil || !strings.Contains(err.Error(), "have 4 shapes, and may have 5") {
		t.Errorf("two more shapes: %v", err)
	}
	etl.Take(view.Tally{Tasks: 1})
	for what, err := range map[string]error{
		"a task after one has ended": etl.RoomForTask(), "the fifth shape": etl.RoomForShapes(1), "fewer shapes": etl.RoomForShapes(-1),
		"another's task": web.RoomForTask(), "another's shapes": web.RoomForShapes(5),
		"nobody's task": nobody.RoomForTask(), "nobody's shapes": nobody.RoomForShapes(1 << 20),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all := shares.All(); len(all) != 2 || all["etl"] != (view.Tally{Frameworks: 1, Tasks: 2, Shapes: 4}) {
		t.Errorf("all are %v", all)
	}
}

// TestLimitsHaveDefaults that are far above what honest ones need.
func TestLimitsHaveDefaults(t *testing.T) {
	share := New(Limits{}).Of("etl")
	share.Add(view.Tally{Frameworks: 1000, Tasks: 100_000, Shapes: 100_000})
	if err := share.RoomForTask(); err != nil {
		t.Error(err)
	}
	if err := share.RoomForShapes(10_000); err != nil {
		t.Error(err)
	}
}
