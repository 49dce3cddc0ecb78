package frameworktest_test

import (
	"context"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// database reserves what a database needs, makes a volume of the reserved disk, and runs on both. It is started again
// on the reservation whenever it ends.
type database struct {
	need    api.Resources
	runs    int
	running bool
}

func (d *database) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if d.running {
		return nil
	}
	for _, offer := range offers {
		var operations []api.Operation
		held := d.need.Filter(func(l api.Label) bool { return l.Name != "disk" })
		if _, has := offer.Resources.Find(api.Label{Name: "disk", Reserved: api.DefaultRole, Dynamic: true, Volume: "data"}); !has {
			if d.runs > 0 {
				continue // another agent than the one where the data is
			}
			operations = []api.Operation{
				{ID: "reserve", Kind: api.OpReserve, Resources: d.need},
				{ID: "create", Kind: api.OpCreate, Volume: "data", Size: d.need.Scalar("disk")},
			}
		}
		d.runs++
		d.running = true
		var items []api.Resource
		for _, item := range held.Items() {
			item.Reserved, item.Dynamic = api.DefaultRole, true
			items = append(items, item)
		}
		items = append(items, api.Resource{Label: api.Label{Name: "disk", Reserved: api.DefaultRole, Dynamic: true, Volume: "data"}, Scalar: d.need.Scalar("disk")})
		answer := api.Launch(offer, api.Task{
			ID: api.TaskID("db-" + string(rune('0'+d.runs))), Resources: api.NewResources(items...), Command: &api.Command{Shell: "sleep 1h"},
		})
		answer.Operations = append(operations, answer.Operations...)
		return []api.Answer{answer}
	}
	return nil
}

func (d *database) Update(_ context.Context, status api.Status) error {
	if status.State.Terminal() {
		d.running = false
	}
	return nil
}

// TestReservationsAndVolumes: what is reserved, and what is a volume, is part of what the agent has. A framework that
// launches on it breaks no promise, also after failovers of the leader and of the agent.
func TestReservationsAndVolumes(t *testing.T) {
	need, err := api.ParseResources("cpus:3;mem:3000;disk:900")
	if err != nil {
		t.Fatal(err)
	}
	machine := frameworktest.Machine{Resources: api.NewResources(append(api.Scalars(4, 4096).Items(),
		api.Resource{Label: api.Label{Name: "disk"}, Scalar: 1000_000})...)}
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2, Machine: machine}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "database"}, &database{need: need})
		f.AwaitCount(1, api.TaskRunning)
		c.Leader().Kill()
		c.AwaitAgreement()
		c.KillTask("db-1")
		f.AwaitCount(1, api.TaskKilled)
		f.AwaitCount(1, api.TaskRunning)
		c.AwaitAgreement()
	})
}
