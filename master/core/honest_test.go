package core_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/view"
)

// TestHonestPrincipalsMeetNoLimit (R34): in the largest cluster that we measure, of 10,000 agents, a framework holds an offer of
// each, leaves a filter on each, and then runs ten tasks on each. That is a fifth of the tasks that its principal may have, a 25th
// of the offers and a hundredth of the filters.
func TestHonestPrincipalsMeetNoLimit(t *testing.T) {
	const agents = 10_000
	m := newMillOf(agents, rights.Scope{Who: "etl", Everything: true})
	has := func() view.Tally { return m.core.View().Counts().Principals["etl"] }
	held := has()
	ids := make([]api.OfferID, len(m.offers))
	for i, offer := range m.offers {
		ids[i] = offer.ID
	}
	m.offers = nil
	m.call(protocol.Decline{Offers: ids, Filter: api.Filter{Refuse: time.Minute}})
	m.settle()
	filtered := has()
	m.call(protocol.Revive{})
	for m.tasks < 10*agents {
		before := m.tasks
		m.settle()
		if m.fill(10); m.tasks == before {
			t.Fatalf("after %d tasks nothing is offered", before)
		}
	}
	runs := has()
	if held.Offers != agents || filtered.Offers != 0 || filtered.Filters != agents || runs.Tasks != 10*agents {
		t.Errorf("it held %+v, then %+v, then %+v; want %d offers, as many filters and ten times as many tasks", held, filtered, runs, agents)
	}
}
