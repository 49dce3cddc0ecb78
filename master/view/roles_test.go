package view

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// TestALongListOfRolesIsAsItIs: each page of a list of roles tells what they have when it is read, however long ago the
// rows were noted, and leaves out those that are no more.
func TestALongListOfRolesIsAsItIs(t *testing.T) {
	state := registry.New()
	state.Roles = map[api.Role]registry.Role{}
	for i := range 3 {
		state.Roles[api.Role(fmt.Sprint("r", i))] = registry.Role{Weight: 2}
	}
	c, query := Cluster{Registry: state}, Query{Limit: 1}
	list := RoleList(c, query)
	list.Sort()
	page := func(at int) (Page[Role], int) {
		var read Page[Role]
		next, _ := list.Read(c, &query, at, &read)
		return read, next
	}
	first, at := page(0)
	state.Roles["r1"] = registry.Role{Weight: 3}
	delete(state.Roles, "r2")
	second, at := page(at)
	if third, _ := page(at); len(first.Items) != 1 || first.Items[0].Weight != 2 || len(second.Items) != 1 || second.Items[0].Weight != 3 || len(third.Items) > 0 {
		t.Errorf("the pages are %v, %v and %v", first.Items, second.Items, third.Items)
	}
}
