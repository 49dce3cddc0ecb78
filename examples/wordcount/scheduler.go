package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/taskset"
)

// attemptsMax is how often a chunk may fail before the whole count does.
const attemptsMax = 5

// taskResources is what one task needs.
var taskResources = api.Scalars(0.25, 64)

// count is what the tasks have counted so far. The set calls its methods from one goroutine.
type count struct {
	progress *progress
	fail     func(error)                   // ends the count
	parts    map[api.TaskID]map[int]counts // parts of tasks that have not ended, by number
	done     map[string]bool               // chunks whose counts are in words
	words    counts
	byAgent  map[api.AgentID]int // number of tasks done
	hosts    map[api.AgentID]string
}

func newCount(progress *progress, fail func(error)) *count {
	return &count{
		progress: progress, fail: fail, parts: map[api.TaskID]map[int]counts{}, done: map[string]bool{},
		words: counts{}, byAgent: map[api.AgentID]int{}, hosts: map[api.AgentID]string{},
	}
}

// newSet returns a task set with an item for each chunk. If one chunk is given up, the count fails, because the others
// would count in vain.
func newSet(c *count, chunks [][]string, self *api.Executor) (*taskset.Set, error) {
	set := taskset.New(taskset.Config{
		Attempts: attemptsMax,
		Update:   c.update,
		Ended: func(outcome taskset.Outcome) {
			if !outcome.Done {
				c.fail(fmt.Errorf("%s: %s", outcome.Item, outcome.Why))
			}
		},
	})
	for i, chunk := range chunks {
		files, err := json.Marshal(chunk)
		if err != nil {
			return nil, err
		}
		task := api.Task{Resources: taskResources, Executor: self, Data: files}
		if err := set.Add(context.Background(), taskset.Item{ID: fmt.Sprint("count-", i), Task: task}); err != nil {
			return nil, err
		}
	}
	set.Close() // no more chunks will come
	return set, nil
}

// update collects the parts of a task, and adds them up when the task is done. The same status may come twice, and a
// second task for a chunk may follow that the first has done; neither changes anything.
func (c *count) update(_ context.Context, chunk string, status api.Status) error {
	if c.done[chunk] {
		return nil
	}
	if status.Hostname != "" { // the status of a task that has ended has no hostname
		c.hosts[status.Agent] = status.Hostname
	}
	if len(status.Data) > 0 {
		var part part
		if err := json.Unmarshal(status.Data, &part); err != nil {
			c.fail(fmt.Errorf("task %s sent counts that can't be read: %w", status.Task, err))
			return nil
		}
		if c.parts[status.Task] == nil {
			c.parts[status.Task] = map[int]counts{}
		}
		c.parts[status.Task][part.Part] = part.Counts
	}
	if status.State == api.TaskFinished {
		for _, part := range c.parts[status.Task] {
			c.words.add(part)
		}
		c.done[chunk] = true
		c.byAgent[status.Agent]++
		c.progress.show(len(c.done))
	}
	if status.State.Terminal() {
		delete(c.parts, status.Task)
	}
	return nil
}
