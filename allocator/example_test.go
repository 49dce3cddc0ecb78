package allocator_test

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
)

// A master makes its policy by name, tells it what there is, and asks it after each batch
// of events. Here two frameworks state what they want; there is room for four of six.
func Example() {
	policy, err := allocator.Make("fairshare", allocator.Config{})
	if err != nil {
		panic(err)
	}
	policy.SetAgent(allocator.Agent{ID: "a1", Total: api.Scalars(4, 4096), Offerable: true})
	for _, id := range []api.FrameworkID{"f1", "f2"} {
		policy.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Roles: []api.Role{api.DefaultRole}}, Active: true})
		policy.SetDemand(id, api.DefaultRole, []api.Shape{{Resources: api.Scalars(1, 512), Count: 3}})
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, offer := range policy.Allocate(now).Offers {
		fmt.Println(offer.Framework, "is offered", offer.Resources, "of", offer.Agent)
	}
	for _, reason := range policy.Explain("f2", "a1", now).Reasons {
		fmt.Println("f2:", reason)
	}
	// Output:
	// f1 is offered cpus:2;mem:1024 of a1
	// f2 is offered cpus:2;mem:1024 of a1
	// f2: a1 has mem:2048 free; f2 wants cpus:1;mem:512; f1 holds cpus:2;mem:1024, f2 holds cpus:2;mem:1024
}

// It is called once, before anything runs, as in a main function.
func init() { allocator.Register("even", fairshare.New) }

// Register your own policy in main; then `tender master --allocator` knows its name.
func ExampleRegister() {
	_, err := allocator.Make("evn", allocator.Config{})
	fmt.Println(err)
	_, err = allocator.Make("even", allocator.Config{})
	fmt.Println(err)
	// Output:
	// allocator "evn" is unknown; there are even, fairshare
	// <nil>
}
