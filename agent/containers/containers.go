// Package containers lists where the executors and tasks of an agent run, and what they use at the moment. It measures
// when it is asked, and changes nothing.
package containers

import (
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/usage"
	"github.com/tenderhq/tender/api"
)

// Container is what an executor lives in together with its tasks, or what a task of the built-in executor lives in
// alone.
type Container struct {
	Framework api.FrameworkID `json:"framework_id"`
	Executor  api.ExecutorID  `json:"executor_id"`
	Task      api.TaskID      `json:"task_id,omitempty"`
	PID       int             `json:"pid,omitempty"` // the process of the executor, or the first process of the task
	// Cell is the container's control group, and Used what that measures; both are absent if it has none.
	Cell string `json:"cell,omitempty"`
	Used *Used  `json:"used,omitempty"`
}

// Used is what a container uses.
type Used struct {
	CPUSeconds  float64 `json:"cpu_seconds"` // since the container was made
	MemoryBytes uint64  `json:"memory_bytes"`
	Processes   int     `json:"processes"`
}

// List lists the containers in a picture of the agent: executors, and tasks that do not live in their executor's
// container.
func List(picture core.Picture, measure usage.Measure) []Container {
	all := []Container{}
	for _, e := range picture.Executors {
		c := Container{Framework: e.Framework, Executor: e.Executor, PID: e.PID}
		c.measure(measure)
		all = append(all, c)
	}
	for _, t := range picture.Tasks {
		if state, err := api.ParseTaskState(t.State); err != nil || state.Terminal() {
			continue
		}
		c := Container{Framework: t.Framework, Executor: t.Executor, Task: t.Task, PID: t.Group}
		if c.measure(measure); c.Cell != "" || c.PID != 0 {
			all = append(all, c)
		}
	}
	return all
}

// measure adds the container's control group and what that uses.
func (c *Container) measure(measure usage.Measure) {
	group, used, found := measure(api.ExecutorRef{Framework: c.Framework, Executor: c.Executor}, c.Task)
	if found {
		c.Cell = group
		c.Used = &Used{CPUSeconds: used.CPU.Seconds(), MemoryBytes: used.Memory, Processes: used.Processes}
	}
}
