package framework_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// database reserves disk on the first agent that is offered and makes a volume there.
type database struct{ asked bool }

func (d *database) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if d.asked {
		return nil // from now on the reserved resources are offered to our role
	}
	d.asked = true
	disk, err := api.ParseResources("disk:1024")
	if err != nil {
		fmt.Println(err)
		return nil
	}
	return []api.Answer{{
		Offers: []api.OfferID{offers[0].ID},
		Operations: []api.Operation{
			{ID: "reserve-1", Kind: api.OpReserve, Resources: disk},
			{ID: "create-1", Kind: api.OpCreate, Volume: "data", Size: api.MilliOf(512)},
			{ID: "create-2", Kind: api.OpCreate, Volume: "more", Size: api.MilliOf(4096)},
		},
	}}
}

func (d *database) Update(context.Context, api.Status) error { return nil }

// OperationDone is told the outcome of each operation that has an ID.
func (d *database) OperationDone(_ context.Context, _ api.AgentID, operation api.OperationID, err error) {
	fmt.Println(operation, err)
}

// The operations of an answer run in order, each on what the ones before it have left. An operation that fails stops no
// other.
func ExampleOperationWatcher() {
	resources, err := api.ParseResources("cpus:4;mem:4096;disk:8192")
	if err != nil {
		fmt.Println(err)
	}
	frameworktest.Example(frameworktest.Cluster{Machine: frameworktest.Machine{Resources: resources}}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "database", Roles: []api.Role{"db"}}, &database{})
		f.AwaitOffers(2)
	})
	// Output:
	// reserve-1 <nil>
	// create-1 <nil>
	// create-2 offer.create: create-2: invalid: a volume is made of disk that is reserved for its role, and cpus:4;disk:7168;disk(db,dynamic):512;disk(db,dynamic,volume=data):512;mem:4096 is left; reserve disk:4096 for role db first
}
