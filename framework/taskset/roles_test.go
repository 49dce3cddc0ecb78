package taskset_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/taskset"
)

// inRole makes an item that belongs to a group, in the role.
func inRole(id string, role api.Role) taskset.Item {
	item := command(id, "sleep infinity")
	item.Role, item.Group = role, "of "+string(role)
	return item
}

// TestRoles: groups in several roles run on what is offered in each role. The framework subscribes to the roles that
// its items name, before the first session and later, and so does a successor.
func TestRoles(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		c.Limit("night", api.Scalars(1, 4096)) // room for two
		add := func(set *taskset.Set, items ...taskset.Item) {
			t.Helper()
			if err := set.Add(context.Background(), items...); err != nil {
				t.Fatal(err)
			}
		}
		near := inRole("near", "night")
		near.Prefer = locality.Prefer{Agents: []api.AgentID{c.Agent(2).ID()}}
		start := func() *taskset.Set {
			set := taskset.New(taskset.Config{})
			add(set, command("day-0", "sleep infinity"), near, inRole("night-1", "night"), inRole("night-2", "night"))
			return set
		}
		set := start()
		f := c.Start(framework.Config{Name: "batch", Roles: []api.Role{"day"}}, set)
		c.AwaitRunning(3)
		c.Never(time.Minute, "the role night to go beyond its limit", func() bool { return set.Numbers().Running > 3 })
		add(set, inRole("third-0", "third"))
		c.AwaitRunning(4)
		f.Kill()
		set = start()
		f = f.Again(set)
		c.Await("what runs to be taken over", func() bool { return set.Numbers().Running == 3 })
		if got := f.Client().Roles(); len(got) != 2 {
			t.Errorf("the framework is in the roles %v", got)
		}
		bad := inRole("bad", "night")
		bad.Group = ""
		add(set, command("day-1", "sleep infinity"))
		if err := set.Add(context.Background(), bad); err == nil || !strings.Contains(err.Error(), "a group has one role") {
			t.Errorf("a group of two roles: %v", err)
		}
		if err := set.Add(context.Background(), inRole("wrong", "a//b")); !api.Is(err, api.Invalid) {
			t.Errorf("a wrong role: %v", err)
		}
		c.AwaitRunning(4)
	})
}

// TestWhichRole: with several roles the set or the item must say which one is meant. Otherwise Run returns an error.
func TestWhichRole(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		config := framework.Config{Name: "web", Roles: []api.Role{"day", "night"}}
		set := taskset.New(taskset.Config{})
		if err := set.Add(context.Background(), command("a", "sleep infinity")); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(config, set).Await(); err == nil || !strings.Contains(err.Error(), "Config.Role or Item.Role") {
			t.Errorf("Run returned %v", err)
		}
		set = taskset.New(taskset.Config{Role: "night"})
		if err := set.Add(context.Background(), command("a", "sleep infinity")); err != nil {
			t.Fatal(err)
		}
		f := c.Start(config, set)
		c.AwaitRunning(1)
		c.Advance(time.Minute)
		if n := f.Offered(); n > 2 {
			t.Errorf("%d offers came, also in the role in which nothing is wanted", n)
		}
	})
}
