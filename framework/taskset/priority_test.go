package taskset_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// oneByOne runs items on a machine that has room for one at a time, and returns the order in which they ran.
func oneByOne(c *frameworktest.Handle, items ...taskset.Item) (order []string) {
	var mu sync.Mutex
	set := taskset.New(taskset.Config{Updated: func(item string, status api.Status) {
		mu.Lock()
		defer mu.Unlock()
		if status.State == api.TaskRunning && !slices.Contains(order, item) {
			order = append(order, item)
		}
	}})
	for _, one := range items {
		if one.Task.Resources.IsZero() {
			one.Task.Resources = api.Scalars(1, 64)
		}
		one.Task.Command = &api.Command{Shell: "sleep 5"}
		if err := set.Add(context.Background(), one); err != nil {
			fmt.Println(err)
		}
	}
	set.Close()
	if err := c.Start(framework.Config{Name: "batch"}, set).Await(); err != nil {
		fmt.Println(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return order
}

// Of the items that wait those with the highest priority go first.
func ExampleItem_priority() {
	machine := frameworktest.Machine{Resources: api.Scalars(1, 64)}
	frameworktest.Example(frameworktest.Cluster{Machine: machine}, func(c *frameworktest.Handle) {
		fmt.Println(oneByOne(c, taskset.Item{ID: "nightly"}, taskset.Item{ID: "report", Priority: 5}, taskset.Item{ID: "urgent", Priority: 10}))
	})
	// Output: [urgent report nightly]
}

// TestPriorityGoesBeforeGroups: a group with the higher priority goes first, however much of it has run; of one priority
// the oldest goes first; and an item for which there is no room holds nothing up.
func TestPriorityGoesBeforeGroups(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.Scalars(1, 64)}
	frameworktest.Run(t, frameworktest.Cluster{Machine: machine}, func(c *frameworktest.Handle) {
		order := oneByOne(c,
			taskset.Item{ID: "a1", Group: "a"}, taskset.Item{ID: "b1", Group: "b", Priority: 1}, taskset.Item{ID: "a2", Group: "a", Priority: 1},
			taskset.Item{ID: "b2", Group: "b", Priority: 1}, taskset.Item{ID: "least", Group: "c", Priority: -1})
		if want := []string{"a2", "b1", "b2", "a1", "least"}; !slices.Equal(order, want) {
			t.Errorf("they ran in the order %v, want %v", order, want)
		}
	})
	frameworktest.Run(t, frameworktest.Cluster{Machine: machine}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		for id, priority := range map[string]int{"large": 9, "small": 0} {
			cpus := 1.0
			if id == "large" {
				cpus = 8
			}
			task := api.Task{Resources: api.Scalars(cpus, 64), Command: &api.Command{Shell: "sleep 5"}}
			if err := set.Add(context.Background(), taskset.Item{ID: id, Task: task, Priority: priority}); err != nil {
				t.Fatal(err)
			}
		}
		c.Start(framework.Config{Name: "batch"}, set)
		c.Await("the small one to be done", func() bool { return set.Numbers().Done == 1 })
	})
}
