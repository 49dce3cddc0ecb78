package core

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/ledger"
	"github.com/tenderhq/tender/master/core/meter"
	"github.com/tenderhq/tender/master/core/principals"
)

// checkMeter compares the sums that samples are compared with, with the tasks.
func checkMeter(a *agent) error {
	var held []meter.Task
	for _, t := range a.tasks {
		if t.held {
			held = append(held, t.metered())
		}
	}
	return a.meter.Check(held)
}

// CheckBooks adds up what every agent's tasks, executors and offers hold, and compares
// that with its ledger and its total (promises 1 and 2).
func (c *Core) CheckBooks() error {
	offers, unheld := 0, 0
	for _, id := range sortedKeys(c.agentByID) {
		a := c.agentByID[id]
		if err := cmp.Or(checkAgent(a), checkMeter(a)); err != nil {
			return fmt.Errorf("agent %s: %w", id, err)
		}
		offers += len(a.offers)
		for _, t := range a.tasks {
			if t.framework.tasks[t.ref.Task] != t && !t.duplicate {
				unheld++
			}
		}
	}
	switch {
	case offers != len(c.offers.open):
		return fmt.Errorf("agents have %d offers, the core has %d", offers, len(c.offers.open))
	case unheld > 0:
		return fmt.Errorf("%d tasks are known to their agents but not to their frameworks", unheld)
	case len(c.offers.expiring) > 0 && len(c.offers.open) == 0 && c.offers.expiring[0].open:
		return fmt.Errorf("an open offer is not in the books")
	}
	return cmp.Or(c.checkReserved(), c.checkFrameworks())
}

// checkReserved compares what is counted as reserved with what agents have.
func (c *Core) checkReserved() error {
	sum := ledger.Tally{}
	for _, a := range c.agentByID { // order: irrelevant because it sums
		sum.Add(reservedOf(a.Total))
	}
	if !maps.Equal(sum, c.inventory.reserved) {
		return fmt.Errorf("agents have %v reserved, %v is counted", sum, c.inventory.reserved)
	}
	return nil
}

// BookedOnOffered is what is used and offered of each agent that the policy may offer.
func (c *Core) BookedOnOffered() map[api.AgentID]api.Resources {
	booked := make(map[api.AgentID]api.Resources)
	for id, a := range c.agentByID { // order: irrelevant because each is looked at by itself
		if a.withheld == "" {
			booked[id] = a.Used.Plus(a.Offered)
		}
	}
	return booked
}

func checkAgent(a *agent) error {
	var used, offered api.Resources
	living := 0
	for _, t := range a.sortedTasks() {
		living += t.lives()
		if t.held {
			used = used.Plus(t.resources)
		}
		if t.held && t.status.State.Terminal() {
			return fmt.Errorf("task %s has ended and still holds %v", t.ref, t.resources)
		}
	}
	for _, x := range sortedExecutors(a) {
		used = used.Plus(x.resources)
	}
	for _, o := range sortedOffers(a.offers) {
		if a.withheld != "" {
			return fmt.Errorf("offer %s is open though the agent is %s", o.id, a.withheld)
		}
		offered = offered.Plus(o.resources)
	}
	for _, x := range a.accepts {
		offered = offered.Plus(x.held)
	}
	switch {
	case living != a.living:
		return fmt.Errorf("%d tasks live, it counts %d", living, a.living)
	case !used.Equal(a.Used):
		return fmt.Errorf("%v is used, its ledger says %v", used, a.Used)
	case !offered.Equal(a.Offered):
		return fmt.Errorf("%v is offered, its ledger says %v", offered, a.Offered)
	case len(a.accepts) == 0 && !a.OverGap().IsZero():
		return fmt.Errorf("%v of what is revocable is offered beyond the gap of %v; %v is used", a.OverGap(), a.Gap, a.Used)
	case !a.Over && !a.Total.Contains(used.Plus(offered).Firm()):
		return fmt.Errorf("oversold: %v used, %v offered of %v", used, offered, a.Total)
	}
	return nil
}

func (c *Core) checkFrameworks() error {
	counted := principals.New(principals.Limits{})
	for _, fw := range c.frameworkByID { // order: irrelevant because it sums
		if fw.share != nil {
			counted.Of(fw.info.Principal).Add(fw.has())
		}
	}
	for principal, has := range c.shares.All() { // order: irrelevant because one that is wrong is enough
		if sum := counted.All()[principal]; sum != has {
			return fmt.Errorf("principal %s has %+v, its frameworks have %+v", principal, has, sum)
		}
	}
	for _, id := range sortedKeys(c.frameworkByID) {
		fw := c.frameworkByID[id]
		used, offered := ledger.Tally{}, ledger.Tally{}
		unlisted, tasks := 0, 0
		for _, a := range c.agentByID {
			for _, t := range a.tasks {
				if t.framework == fw && t.held {
					used.Add(t.resources)
					tasks++
				}
				if t.framework == fw && t.duplicate {
					unlisted++
				}
			}
			for _, x := range a.accepts {
				if x.session.framework == fw {
					unlisted++
				}
			}
		}
		for _, x := range fw.executors {
			used.Add(x.resources)
		}
		for _, o := range fw.offers {
			offered.Add(o.resources)
		}
		shown, _ := reader{c}.Framework(id)
		switch {
		case !used.Resources().Equal(shown.Allocated) || !offered.Resources().Equal(shown.Offered):
			return fmt.Errorf("framework %s uses %v and is offered %v, its books say %v and %v", id, used.Resources(), offered.Resources(), shown.Allocated, shown.Offered)
		case tasks != shown.Tasks:
			return fmt.Errorf("framework %s has %d tasks that hold resources, it counts %d", id, tasks, shown.Tasks)
		case unlisted != fw.unlisted:
			return fmt.Errorf("framework %s has %d second runs and waiting accepts, it counts %d", id, unlisted, fw.unlisted)
		case fw.session == nil && len(fw.offers) > 0:
			return fmt.Errorf("framework %s is away and holds %d offers", id, len(fw.offers))
		}
	}
	return nil
}

// UsedBeyond is what the policy was told to be in use on the agent beyond what was asked for.
func (c *Core) UsedBeyond(id api.AgentID) api.Resources { return c.agentByID[id].meter.Told() }

// SettlesLostAccepts says that the agent is withheld until the registry has answered.
func (c *Core) SettlesLostAccepts(id api.AgentID) bool { return c.agentByID[id].settlesLostAccepts() }

// Equal says that two cores stand where the other stands.
func (c *Core) Equal(other *Core) bool {
	equal := false
	c.asData(func() { other.asData(func() { equal = reflect.DeepEqual(c, other) }) })
	return equal
}
