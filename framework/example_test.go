package framework_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
)

// greeter starts one task on the first offer that holds enough for it.
type greeter struct {
	started bool
	end     context.CancelFunc
}

func (g *greeter) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	need := api.Scalars(0.5, 64) // cpus, MB
	for _, offer := range offers {
		if _, fits := offer.Resources.Minus(need); fits && !g.started {
			g.started = true
			return []api.Answer{api.Launch(offer, api.Task{
				ID: "greet-1", Resources: need, Command: &api.Command{Shell: "echo hello"},
			})}
		}
	}
	return nil // what has no answer is declined
}

func (g *greeter) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, status.State)
	if status.State.Terminal() {
		g.end()
	}
	return nil // acknowledged
}

// A scheduler is a value with methods, so a test can call them without any cluster.
func Example() {
	ctx, end := context.WithCancel(context.Background())
	g := &greeter{end: end}
	answers := g.Offers(ctx, []api.Offer{
		{ID: "offer-1-1", Resources: api.Scalars(0.1, 4096)},
		{ID: "offer-1-2", Resources: api.Scalars(4, 4096)},
	})
	for _, answer := range answers {
		fmt.Println(answer.Offers, answer.Operations[0].Tasks[0].ID)
	}
	for _, state := range []api.TaskState{api.TaskRunning, api.TaskFinished} {
		if err := g.Update(ctx, api.Status{Task: "greet-1", State: state}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(ctx.Err())
	// Output:
	// [offer-1-2] greet-1
	// greet-1 RUNNING
	// greet-1 FINISHED
	// context canceled
}
