package taskset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestAStatusThatComesAgainCountsOnce: while the store has no room for a change, statuses are not acknowledged and are
// sent again and again. A failure of an item counts once even so, and the item is not given up because of it.
func TestAStatusThatComesAgainCountsOnce(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Machine: frameworktest.Machine{Resources: api.Scalars(16, 16384)}}, func(c *frameworktest.Handle) {
		ended := 0
		set := taskset.New(taskset.Config{Keep: "items", Attempts: 3, Ended: func(taskset.Outcome) { ended++ }})
		f := c.Start(framework.Config{Name: "shop"}, set)
		f.Client()
		c.Await("the set to be loaded", func() bool { return set.Add(context.Background(), command("once", "sleep infinity")) == nil })
		mustScale(t, set, command("", "sleep infinity"), 1)
		f.AwaitCount(2, api.TaskRunning)
		if err := set.Roll(context.Background(), "web", command("", "sleep 3600"), taskset.Rolling{Proof: 2 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		c.Await("the new task to run", func() bool { return len(tasksOf(set, "web-0")) == 1 && set.Numbers().Attempts == 3 })
		fillStore(c, f.Client().Store())
		f.EndTask(tasksOf(set, "web-0")[0], frameworktest.Play{ExitCode: 1}) // the change stops, which can't be written
		f.EndTask(tasksOf(set, "once")[0], frameworktest.Play{ExitCode: 1})
		c.Advance(10 * time.Minute)
		if n := set.Numbers(); ended != 0 || n.Failed != 2 || n.GivenUp != 0 {
			t.Errorf("%d items have ended: %+v", ended, n)
		}
		if err := f.Client().Store().Delete(c.T().Context(), "ballast/0", framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Minute)
		if n := set.Numbers(); n.Failed != 2 || n.Running != 2 {
			t.Errorf("with room again: %+v", n)
		}
		if err := f.Teardown(); err != nil {
			t.Error(err)
		}
	})
}

// tasksOf returns the tasks of the item that have not ended.
func tasksOf(set *taskset.Set, item string) (tasks []api.TaskID) {
	for _, one := range set.Tasks() {
		if one.Item == item {
			tasks = append(tasks, one.Status.Task)
		}
	}
	return tasks
}

// fillStore leaves no room for another byte in the framework's store.
func fillStore(c *frameworktest.Handle, store *framework.Store) {
	c.T().Helper()
	value := make([]byte, 1<<20)
	for number := 0; len(value) > 0; number++ {
		_, err := store.Put(c.T().Context(), fmt.Sprint("ballast/", number), value, framework.AnyVersion)
		switch {
		case api.Is(err, api.Limit):
			value = value[:len(value)/2]
		case err != nil:
			c.T().Fatal(err)
		}
	}
}
