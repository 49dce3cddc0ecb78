package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// nightly runs one job each night; the store has the last one. Any instance can continue.
type nightly struct {
	instance string
	client   *framework.Client
	last     framework.Entry
	runs     bool
}

func (n *nightly) Subscribed(ctx context.Context, client *framework.Client) (err error) {
	n.client = client
	n.last, err = client.Store().Get(ctx, "last")
	fmt.Printf("%s is active; last is %q\n", n.instance, n.last.Value)
	return err
}

// Settled makes nightly a Settler: when it is called, Update has told every task that runs. Offers come only from now
// on, because its Config sets Suppressed, so nothing is started twice.
func (n *nightly) Settled(context.Context) {
	if !n.runs && n.last.Version == 0 {
		_ = n.client.Revive() // fails only when Run has ended
	}
}

func (n *nightly) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if n.runs {
		return nil
	}
	n.runs = true
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "night-1", Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "sleep 20"},
	})}
}

// Update writes the end into the store before it acknowledges it. If an instance dies in between, the next one is told
// the status.
func (n *nightly) Update(ctx context.Context, status api.Status) (err error) {
	fmt.Println(n.instance, "hears:", status.Task, status.State)
	n.runs = true
	if status.State == api.TaskFinished {
		n.last, err = n.client.Store().Put(ctx, "last", []byte(status.Task), n.last.Version)
	}
	return err // of kind api.Stale when somebody else has changed it meanwhile
}

// Copies of a scheduler run with the same Name and Standby; one is active. When it is gone, the next continues with the
// same framework ID, its tasks and its store.
func Example_standby() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		config := framework.Config{Name: "nightly", Standby: true, Suppressed: true}
		first := c.Start(config, &nightly{instance: "first"})
		first.AwaitState("night-1", api.TaskRunning)
		second := c.Start(config, &nightly{instance: "second"})
		first.Kill()
		second.AwaitState("night-1", api.TaskFinished)
		c.Advance(time.Second) // else the third may be told the end, too: what was handled may not be acknowledged yet
		second.Kill()
		third := c.Start(config, &nightly{instance: "third"})
		c.Await("the third to be active", func() bool { return third.ID() != "" })
		fmt.Println("one framework:", first.ID() == third.ID())
	})
	// Output:
	// first is active; last is ""
	// first hears: night-1 RUNNING
	// second is active; last is ""
	// second hears: night-1 RUNNING
	// second hears: night-1 FINISHED
	// third is active; last is "night-1"
	// one framework: true
}
