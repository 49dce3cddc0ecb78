package main

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/taskset"
)

// newSet returns a task set with an item for each frame. It tries again what fails.
func newSet(frames int, command api.Command) (*taskset.Set, error) {
	set := taskset.New(taskset.Config{Apart: api.ByAgent, Most: perAgent})
	for frame := range frames {
		err := set.Add(context.Background(), taskset.Item{ID: fmt.Sprintf("frame-%d", frame), Task: api.Task{Resources: need, Command: &command}})
		if err != nil {
			return nil, err
		}
	}
	set.Close()
	return set, nil
}
