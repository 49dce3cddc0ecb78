package walls

import (
	"testing"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/allocator/constraint"
)

func TestFound(t *testing.T) {
	for _, test := range []struct {
		tree  cell.Tree
		want  string
		lacks int
	}{
		{cell.Tree{}, "groups", 0},
		{cell.Tree{Root: cell.Cell{Grade: cell.Groups}, Lacks: "no control groups are mounted"}, "groups", 1},
		{cell.Tree{Root: cell.Cell{Grade: cell.Hybrid, Pids: "p", Memory: "m", CPU: "c"}, Makes: true}, "hybrid,cpu,memory,pids", 0},
		{cell.Tree{Root: cell.Cell{Grade: cell.Hybrid, Pids: "p"}, Lacks: "control groups were not asked for"}, "groups", 1},
	} {
		found := FromCells(test.tree)
		if found.String() != test.want || len(found.Lacks) != test.lacks {
			t.Errorf("%+v: %+v", test.tree, found)
		}
	}
}

// A framework can ask for an ability by a constraint.
func TestAFrameworkCanAskForWalls(t *testing.T) {
	found := FromCells(cell.Tree{Root: cell.Cell{Grade: cell.Cgroup2, Memory: "m"}, Makes: true})
	found.Add("users")
	found.Add("memory") // it is named already
	if got := found.String(); got != "cgroup2,memory,users" || !found.Has("users") {
		t.Errorf("%s", got)
	}
	wants, err := constraint.Compile(`attributes["isolation"].contains("memory") && attributes["isolation"].startsWith("cgroup2")`)
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := wants.Holds(constraint.Agent{Attributes: map[string]string{Attribute: found.String()}}); !holds || err != nil {
		t.Errorf("%v, %v", holds, err)
	}
}
