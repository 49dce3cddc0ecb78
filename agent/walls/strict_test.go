package walls

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/api"
)

// The built-in executor is told which files its tasks are kept from, also where there are no control groups. An
// executor of a framework is told nothing, as it is kept from these files itself.
func TestLandlockIsHandedOut(t *testing.T) {
	c := &Cells{folder: "/var/lib/agent", config: Config{Landlock: true}, images: images{not: "it is not root"}}
	held := Holding{Executor: api.ExecutorRef{Framework: "f1", Executor: "command"}, Builtin: true}
	told, err := c.Make(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	handout, err := cell.ParseHandout(told)
	if err != nil || !handout.Paths || !slices.Equal(handout.Hidden, []string{"/var/lib/agent"}) || handout.Volumes != "/var/lib/agent/volumes" ||
		handout.Cell.Grade != "" || handout.Spaces || handout.Images {
		t.Errorf("%+v, %v", handout, err)
	}
	held.Builtin = false
	if told, err := c.Make(t.Context(), held); told != "" || err != nil {
		t.Errorf("another one is told %s, %v", told, err)
	}
	if reach := c.Reach("/var/lib/agent/sandboxes/f1"); reach == nil || reach.Hidden != c.folder || len(reach.Own) != 1 {
		t.Errorf("%+v", reach)
	}
	c.config.Landlock = false
	if told, err := c.Make(t.Context(), held); told != "" || err != nil || c.Reach("/") != nil {
		t.Errorf("unasked it is told %s, %v", told, err)
	}
	found := Found{Abilities: []string{string(cell.Groups)}}
	if c.findPaths(&found); found.Has(paths.Ability) {
		t.Errorf("unasked %v is found", found.Abilities)
	}
	c.config.Landlock = true
	if c.findPaths(&found); !found.Has(paths.Ability) || len(found.Lacks) == 0 || !strings.Contains(found.Lacks[0], "but not from seeing and changing modes") {
		t.Errorf("found %+v", found)
	}
}
