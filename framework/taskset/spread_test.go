package taskset

import (
	"context"
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
	"pgregory.net/rapid"
)

// TestSpreadAmongOffers: if agents of several racks are offered together, each rack gets the same number of tasks.
func TestSpreadAmongOffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks, each := rapid.IntRange(1, 4).Draw(t, "racks"), rapid.IntRange(1, 3).Draw(t, "tasks of each")
		set := New(Config{Spread: api.ByAttribute("rack"), Rank: pack.WorstFit})
		w := &world{t: t, set: set}
		if err := set.Scale(context.Background(), "web", Item{Task: api.Task{Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "true"}}}, racks*each); err != nil {
			t.Fatal(err)
		}
		set.client, set.state.known = w, true
		var offers []api.Offer
		for i := range 2 * racks {
			offers = append(offers, api.Offer{
				ID: api.OfferID(fmt.Sprint("offer-", i)), Agent: api.AgentID(fmt.Sprint("agent-", i)),
				Resources:  api.Scalars(float64(rapid.IntRange(each, 9).Draw(t, "cpus")), 100),
				Attributes: map[string]string{"rack": fmt.Sprint(i / 2)},
			})
		}
		byRack := make(map[string]int)
		for i, answer := range set.Offers(t.Context(), offers) {
			for _, operation := range answer.Operations {
				byRack[offers[i].Attributes["rack"]] += len(operation.Tasks)
			}
		}
		for rack, n := range byRack {
			if n != each {
				t.Errorf("rack %s got %d of %d tasks: %v", rack, n, racks*each, byRack)
			}
		}
		if len(byRack) != racks {
			t.Errorf("%d racks got tasks: %v", len(byRack), byRack)
		}
		set.client = nil
	})
}
