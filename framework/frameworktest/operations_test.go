package frameworktest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// storekeeper reserves disk of the first offer, makes a volume of it, and writes down what it is told.
type storekeeper struct {
	asked bool
	mu    sync.Mutex
	told  map[api.OperationID][]api.Kind // 0: done
}

func (s *storekeeper) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if s.asked {
		return nil
	}
	s.asked = true
	disk, err := api.ParseResources("disk:100")
	if err != nil {
		panic(err)
	}
	return []api.Answer{{Offers: []api.OfferID{offers[0].ID}, Operations: []api.Operation{
		{ID: "reserve", Kind: api.OpReserve, Resources: disk},
		{ID: "create", Kind: api.OpCreate, Volume: "v1", Size: 50_000},
		{ID: "again", Kind: api.OpCreate, Volume: "v1", Size: 50_000},
	}}}
}

func (s *storekeeper) Update(context.Context, api.Status) error { return nil }

func (s *storekeeper) OperationDone(_ context.Context, _ api.AgentID, operation api.OperationID, err error) {
	kind := api.Kind(0)
	if err != nil {
		kind = api.KindOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[operation] = append(s.told[operation], kind)
}

func (s *storekeeper) of(operation api.OperationID) []api.Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told[operation])
}

// TestOperationsOutliveTheLeader: the next leader knows what the first one has done. Of all other operations it says
// that nothing is known. (R26)
func TestOperationsOutliveTheLeader(t *testing.T) {
	disks := frameworktest.Machine{Resources: api.NewResources(append(api.Scalars(4, 4096).Items(),
		api.Resource{Label: api.Label{Name: "disk"}, Scalar: 1000_000})...)}
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Machine: disks}, func(c *frameworktest.Handle) {
		s := &storekeeper{told: make(map[api.OperationID][]api.Kind)}
		f := c.Start(framework.Config{Name: "store"}, s)
		last := func(id api.OperationID, times int, kind api.Kind) func() bool {
			return func() bool {
				told := s.of(id)
				return len(told) == times && told[times-1] == kind
			}
		}
		c.Await("the volume", last("create", 1, 0))
		c.Await("the refusal", last("again", 1, api.Invalid))
		c.Leader().Kill()
		c.Advance(5 * time.Second)
		if err := f.Client().ReconcileOperations("reserve", "create", "again", "never"); err != nil {
			t.Error(err)
		}
		c.Await("the reservation once more", last("reserve", 2, 0))
		c.Await("the volume once more", last("create", 2, 0))
		c.Await("nothing of a refusal", last("again", 2, api.NotFound))
		c.Await("nothing of what never was", last("never", 1, api.NotFound))
		if err := f.Client().ReconcileOperations(); err != nil {
			t.Error(err)
		}
		c.Await("all that is remembered", last("create", 3, 0))
		if n := len(s.of("never")) + len(s.of("again")); n != 3 {
			t.Errorf("without names %d results of nothing were told", n-3)
		}
	})
}
