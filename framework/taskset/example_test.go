package taskset_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/taskset"
)

// In a queue each item is done once, and tried again if it fails. Run returns when the set is closed and all items have
// ended; Err tells what was given up.
func Example_queue() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Attempts: 3})
		for id, line := range map[string]string{"a": "sleep 5", "b": "sleep 5", "broken": "exit 3"} {
			if err := set.Add(context.Background(), taskset.Item{ID: id, Task: api.Task{
				Resources: api.Scalars(1, 128),
				Command:   &api.Command{Shell: line},
			}}); err != nil {
				fmt.Println(err)
			}
		}
		set.Close() // no more items will come
		fmt.Println(c.Start(framework.Config{Name: "batch"}, set).Await())
		n := set.Numbers()
		fmt.Println(n.Done, "done,", n.GivenUp, "given up,", n.Attempts, "attempts")
		fmt.Println(set.Err())
	})
	// Output:
	// <nil>
	// 2 done, 1 given up, 5 attempts
	// 1 item was given up: broken: 3 attempts failed, the last: FAILED exited with 3
}

// The service has three tasks, at most one on each agent, each with a port of its own. It is kept running until it is
// scaled down.
func Example_service() {
	resources, err := api.ParseResources("cpus:4;mem:4096;ports:[31000-31009]")
	if err != nil {
		fmt.Println(err)
	}
	cluster := frameworktest.Cluster{
		Agents:  4,
		Machine: frameworktest.Machine{Resources: resources},
		Script:  func(api.Task) frameworktest.Play { return frameworktest.Play{Duration: 24 * time.Hour} },
	}
	frameworktest.Example(cluster, func(c *frameworktest.Handle) {
		web := taskset.New(taskset.Config{Apart: api.ByAgent, Unreachable: time.Minute})
		err := web.Scale(context.Background(), "web", taskset.Item{Task: api.Task{
			Resources: api.Scalars(0.5, 128),
			Command:   &api.Command{Shell: "exec python3 -m http.server $TENDER_TASK_PORT_HTTP"},
			Ports:     map[string]uint16{"http": 0}, // any of the offer's
		}}, 3)
		if err != nil {
			fmt.Println(err)
		}
		f := c.Start(framework.Config{Name: "web"}, web)
		c.AwaitRunning(3)
		for _, agent := range c.Agents() {
			if len(agent.Tasks()) > 0 {
				agent.Lose() // the machine is lost for good
				break
			}
		}
		f.AwaitCount(1, api.TaskUnreachable)
		f.AwaitCount(3, api.TaskRunning)
		fmt.Println(web.Numbers().Attempts, "tasks were launched")
	})
	// Output: 4 tasks were launched
}

// A straggler gets a copy on another agent. Whichever ends first counts, and the other is killed.
func Example_speculative() {
	cluster := frameworktest.Cluster{Agents: 2, Script: func(task api.Task) frameworktest.Play {
		if strings.HasPrefix(string(task.ID), "part-7.1.") { // its first attempt hangs
			return frameworktest.Play{Duration: time.Hour}
		}
		return frameworktest.Play{Duration: 10 * time.Second}
	}}
	frameworktest.Example(cluster, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Speculate: 1.5}) // when it has taken 1.5 times the median
		for i := range 8 {
			if err := set.Add(context.Background(), taskset.Item{ID: fmt.Sprint("part-", i), Task: api.Task{
				Resources: api.Scalars(1, 128), Command: &api.Command{Shell: "work"},
			}}); err != nil {
				fmt.Println(err)
			}
		}
		set.Close()
		fmt.Println(c.Start(framework.Config{Name: "batch"}, set).Await())
		n := set.Numbers()
		fmt.Println(n.Done, "done,", n.Copies, "copy,", n.CopiesWon, "of it won; in under a minute:", c.Now() < time.Minute)
	})
	// Output:
	// <nil>
	// 8 done, 1 copy, 1 of it won; in under a minute: true
}

// Items wait for the agents that have their data, but no longer than they should.
func Example_locality() {
	frameworktest.Example(frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Locality: locality.Config{Node: locality.Wait{Time: 5 * time.Second}}})
		for i := range 5 { // four have room there at once
			if err := set.Add(context.Background(), taskset.Item{
				ID:     fmt.Sprint("block-", i),
				Task:   api.Task{Resources: api.Scalars(1, 128), Command: &api.Command{Shell: "sleep 60"}},
				Prefer: locality.Prefer{Agents: []api.AgentID{c.Agent(2).ID()}},
			}); err != nil {
				fmt.Println(err)
			}
		}
		set.Close()
		fmt.Println(c.Start(framework.Config{Name: "batch"}, set).Await())
		n := set.Locality()
		fmt.Printf("%.0f %% local; the longest wait was at least 5 s: %v\n", 100*n.HitRate(), n.Longest >= 5*time.Second)
	})
	// Output:
	// <nil>
	// 80 % local; the longest wait was at least 5 s: true
}
