package client_test

import (
	"context"
	"fmt"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

// follow prints each step in the life of the tasks of a framework. docs/client.md shows it.
func follow(ctx context.Context, config client.Config, framework string) error {
	c, err := client.Dial(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	for news, err := range c.Watch(ctx, &apiv1.WatchRequest{Kinds: []string{"task"}, FrameworkId: framework}) {
		if err != nil {
			return err
		}
		for _, change := range news.GetItems() {
			if task := change.GetTask(); task != nil {
				fmt.Println(task.GetId(), task.GetState(), task.GetMessage())
			}
		}
	}
	return nil
}

func ExampleClient_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a program would watch until it is interrupted
	fmt.Println(follow(ctx, client.Config{Masters: []string{"127.0.0.1:1"}, Token: ""}, "framework-1"))
	// Output: context canceled
}
