package framework_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
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

// A scheduler is a value that answers: a test can ask it without any cluster.
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

// Run blocks; its error says why it has ended, with a kind to switch on.
func ExampleRun() { //nolint:testableexamples // needs a cluster; the tests of this package run one
	ctx, end := context.WithCancel(context.Background())
	defer end()
	err := framework.Run(ctx, framework.Config{
		Name:          "greeter",
		Masters:       []string{"10.0.0.1:5060", "10.0.0.2:5060"},
		TeardownAtEnd: true,
	}, &greeter{end: end})
	switch {
	case errors.Is(err, framework.ErrFenced):
		fmt.Println("another instance has the tasks now")
	case api.Is(err, api.Removed):
		fmt.Println("an operator has removed the framework:", err)
	case err != nil:
		fmt.Println(err)
	}
}

// Three copies of a scheduler run with the same Name and Standby; one is active. What
// the next one must know is in the store.
func ExampleClient_Store() { //nolint:testableexamples // needs a cluster; TestStore and TestTwoInstancesWithStandby run one
	config := framework.Config{Name: "nightly", Standby: true}
	_ = framework.Run(context.Background(), config, &nightly{})
}

type nightly struct {
	greeter
	done framework.Entry
}

func (n *nightly) Subscribed(ctx context.Context, client *framework.Client) (err error) {
	store := client.Store()
	if n.done, err = store.Get(ctx, "done"); err != nil {
		return err
	}
	n.done, err = store.Put(ctx, "done", []byte("2026-01-01"), n.done.Version)
	return err // of kind api.Stale when somebody else has changed it meanwhile
}

// Stated demand is offered only what fits, and makes preemption possible. None at all
// means silence: no offers until there is something to do.
func ExampleClient_Demand() { //nolint:testableexamples // needs a cluster; TestDemandFollowsTheAnswers runs a master
	demand := func(client *framework.Client, waiting int64) error {
		if waiting == 0 {
			return client.Demand(api.Demand{})
		}
		return client.Demand(api.Demand{Shapes: []api.Shape{{
			Resources:  api.Scalars(1, 512),
			Count:      waiting,
			Constraint: `attributes["disk"] == "ssd"`,
		}}})
	}
	_ = demand
}

// Offers that are kept are answered later, from any goroutine. Those that are gone by
// then cost nothing: their tasks end DROPPED, through Update.
func ExampleClient_Answer() { //nolint:testableexamples // needs a cluster; TestKeptOffers runs a master
	later := func(client *framework.Client, kept api.Offer, task api.Task) {
		time.AfterFunc(5*time.Second, func() { _ = client.Answer(api.Launch(kept, task)) })
	}
	_ = later
}

// A framework moves to another role for the night, without a new subscription.
func ExampleClient_UpdateFramework() { //nolint:testableexamples // needs a cluster; TestUpdateFramework runs one
	night := func(ctx context.Context, client *framework.Client) error {
		err := client.UpdateFramework(ctx, func(f *api.Framework) {
			f.Roles = []api.Role{"batch/night"}
			f.Constraint = `region == "eu"`
		})
		if api.Is(err, api.Invalid) {
			return fmt.Errorf("nothing has changed: %w", err)
		}
		return err
	}
	_ = night
}

// One binary is scheduler and executor, and reaches agents without a shared file system.
func ExampleClient_Self() { //nolint:testableexamples // needs a cluster; TestSelfIsShipped in internal/cli runs one
	task := func(client *framework.Client, id api.TaskID) (api.Task, error) {
		self, err := client.Self("counter")
		if err != nil {
			return api.Task{}, err
		}
		return api.Task{ID: id, Resources: api.Scalars(1, 128), Executor: self}, nil
	}
	_ = task
}
