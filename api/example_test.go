package api_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
)

// Amounts are exact: they are kept in thousandths, not as floats.
func ExampleScalars() {
	need := api.Scalars(0.1, 32) // cpus, MB of memory
	fmt.Println(need, need.Plus(need).Plus(need))
	// Output: cpus:0.1;mem:32 cpus:0.3;mem:96
}

// The text form is the same everywhere: flags, logs, tables, this package.
func ExampleParseResources() {
	resources, err := api.ParseResources("cpus:4;mem:8192;gpus:2;ports:[31000-31009];zones:{a,b}")
	fmt.Println(resources, err)
	_, err = api.ParseResources("cpus:four")
	fmt.Println(err)
	// Output:
	// cpus:4;gpus:2;mem:8192;ports:[31000-31009];zones:{a,b} <nil>
	// resources "cpus:four": "four" is not a number; write a number such as 2, 0.5 or 0.125
}

// Minus returns what is left of an offer without a task, and whether the offer contained the task.
func ExampleResources_Minus() {
	offered := api.Scalars(2, 1024)
	left, fits := offered.Minus(api.Scalars(1.5, 512))
	fmt.Println(left, fits)
	left, fits = left.Minus(api.Scalars(1.5, 512))
	fmt.Println(left, fits)
	// Output:
	// cpus:0.5;mem:512 true
	// cpus:0.5;mem:512 false
}

// Carve also finds what is asked for without a label among resources that are reserved for the role, and any two ports.
func ExampleResources_Carve() {
	offered := api.MustParseResources("cpus:2;cpus(web):1;ports:[31000-31009]")
	ask := api.MustParseResources("cpus:1.5;ports:2")
	taken, rest, ok := offered.Carve(ask)
	fmt.Println(taken, ok)
	fmt.Println(rest)
	// Output:
	// cpus:0.5;cpus(web):1;ports:[31000-31001] true
	// cpus:1.5;ports:[31002-31009]
}

// The four kinds of answers to an offer.
func ExampleAnswer() {
	offer := api.Offer{ID: "offer-1-1", Resources: api.Scalars(4, 4096)}
	task := api.Task{ID: "task-1", Resources: api.Scalars(1, 512), Command: &api.Command{Argv: []string{"sleep", "60"}}}
	launch := api.Launch(offer, task)          // what is left over is declined
	decline := api.Decline(offer, time.Minute) // no such offer of this agent for a minute
	keep := api.Keep(offer)                    // answered later, through the client
	reserve := api.Answer{                     // any operations, in this order
		Offers: []api.OfferID{offer.ID},
		Operations: []api.Operation{
			{Kind: api.OpReserve, Resources: api.Scalars(1, 512)},
			{Kind: api.OpLaunch, Tasks: []api.Task{task}},
		},
		Filter: api.NoFilter, // what is left may come back at once
	}
	for _, answer := range []api.Answer{launch, decline, keep, reserve} {
		fmt.Println(len(answer.Operations), answer.Keep, answer.Filter.For())
	}
	// Output:
	// 1 false 5s
	// 0 false 1m0s
	// 0 true 5s
	// 2 false 0s
}

// Callers switch on an error's kind; its text is for people.
func ExampleIs() {
	err := fmt.Errorf("saving: %w", api.E("store.put", api.Stale, "jobs/1", errors.New("version 4 is there, not 3")))
	if api.Is(err, api.Stale) {
		fmt.Println("read it again, then write:", err)
	}
	// Output: read it again, then write: saving: store.put: jobs/1: stale: version 4 is there, not 3
}

// A task's life is a table: which states end it, and which step may follow which.
func ExampleTaskState() {
	for _, state := range []api.TaskState{api.TaskRunning, api.TaskUnreachable, api.TaskFailed} {
		fmt.Println(state, state.Terminal())
	}
	// Output:
	// RUNNING false
	// UNREACHABLE false
	// FAILED true
}
