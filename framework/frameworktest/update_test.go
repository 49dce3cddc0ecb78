package frameworktest_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// keeper keeps every offer, and notes why offers go.
type keeper struct {
	mu     sync.Mutex // the story reads the fields too
	client *framework.Client
	kept   map[api.OfferID]api.Offer
	gone   map[api.OfferID]string
}

func newKeeper() *keeper {
	return &keeper{kept: make(map[api.OfferID]api.Offer), gone: make(map[api.OfferID]string)}
}

func (k *keeper) Subscribed(_ context.Context, client *framework.Client) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.client = client
	return nil
}

func (k *keeper) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	var answers []api.Answer
	for _, offer := range offers {
		k.kept[offer.ID] = offer
		answers = append(answers, api.Keep(offer))
	}
	return answers
}

func (k *keeper) Update(context.Context, api.Status) error { return nil }

func (k *keeper) Rescinded(_ context.Context, offers []api.OfferID, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range offers {
		delete(k.kept, id)
		k.gone[id] = why
	}
}

// holds lists the roles of the offers that are kept.
func (k *keeper) holds() []api.Role {
	k.mu.Lock()
	defer k.mu.Unlock()
	var roles []api.Role
	for _, offer := range k.kept {
		roles = append(roles, offer.Role)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// why returns the reasons for which offers were taken back.
func (k *keeper) why() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.gone))
}

// described returns the framework as people see it.
func described(t *testing.T, c *frameworktest.Handle, id api.FrameworkID) *apiv1.FrameworkView {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := c.Operator().ListFrameworks(ctx, &apiv1.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, view := range list.GetItems() {
		if view.GetId() == string(id) {
			return view
		}
	}
	t.Fatalf("no framework %s", id)
	return nil
}

// TestUpdateFramework: a framework moves to another role, with another failover time and another address. The next
// leader knows them too, and anybody can look up its endpoints.
func TestUpdateFramework(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		scheduler := newKeeper()
		f := c.Start(framework.Config{
			Name: "mover", Roles: []api.Role{"day"}, Endpoints: map[string]string{"http": "10.1.1.1:80"},
		}, scheduler)
		c.Await("an offer", func() bool { return slices.Contains(scheduler.holds(), "day") })
		if view := described(t, c, f.ID()); view.GetEndpoints()["http"] != "10.1.1.1:80" {
			t.Errorf("its endpoints are %v", view.GetEndpoints())
		}
		err := scheduler.client.UpdateFramework(context.Background(), func(f *api.Framework) {
			f.Roles = []api.Role{"night"}
			f.FailoverTimeout = time.Hour
			f.Endpoints["http"] = "10.1.1.2:80"
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Await("an offer in the new role alone", func() bool { return slices.Equal(scheduler.holds(), []api.Role{"night"}) })
		if why := scheduler.why(); !slices.Contains(why, "the framework has left the role") {
			t.Errorf("the offer in the old role is gone: %q", why)
		}
		err = scheduler.client.UpdateFramework(context.Background(), func(f *api.Framework) { f.Constraint = "attributes.rack = 1" })
		if !api.Is(err, api.Invalid) {
			t.Errorf("a wrong constraint: %v", err)
		}
		t.Log("what the user reads:", err)
		c.Leader().Kill()
		c.Advance(10 * time.Second)
		c.Leader()
		c.Await("an offer of the new leader", func() bool { return slices.Equal(scheduler.holds(), []api.Role{"night"}) })
		view := described(t, c, f.ID())
		if !slices.Equal(view.GetRoles(), []string{"night"}) || view.GetFailoverTimeout().AsDuration() != time.Hour || view.GetEndpoints()["http"] != "10.1.1.2:80" {
			t.Errorf("after the failover: %v, %v, %v", view.GetRoles(), view.GetFailoverTimeout(), view.GetEndpoints())
		}
	})
}
