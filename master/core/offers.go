package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/view"
)

// offersPerEvent bounds one message, so that it stays far below its limit (R4).
const offersPerEvent = 100

// offer is resources of one agent that a framework may answer until it expires.
type offer struct {
	id        api.OfferID
	number    uint64
	framework *framework
	agent     *agent
	role      api.Role
	resources api.Resources
	made      time.Time
	expires   time.Time
	open      bool

	// Of an answer in parts: the number of the call that brought the last one; what the
	// parts have done so far.
	part uint64
	did  view.Decision
}

func (o *offer) claim() allocator.Claim {
	return allocator.Claim{Framework: o.framework.id, Role: o.role, Agent: o.agent.id, Resources: o.resources}
}

// makeOffers checks what the policy proposes (R25) and sends it.
func (c *Core) makeOffers(claims []allocator.Claim) {
	made := make(map[api.FrameworkID][]api.Offer)
	var order []*framework
	for _, claim := range claims {
		o, err := c.makeOffer(claim)
		if err != nil {
			c.info("proposal dropped", field("framework", claim.Framework), field("agent", claim.Agent), field("why", err.Error()))
			c.policy.Return(claim)
			continue
		}
		if len(made[o.framework.id]) == 0 {
			order = append(order, o.framework)
		}
		made[o.framework.id] = append(made[o.framework.id], c.shownOffer(o))
	}
	for _, fw := range order {
		for page := range slices.Chunk(made[fw.id], offersPerEvent) {
			c.tell(fw, protocol.Offers{Offers: page})
		}
	}
}

// makeOffer opens one offer, or says what is wrong with the proposal.
func (c *Core) makeOffer(claim allocator.Claim) (*offer, error) {
	fw, a := c.frameworks[claim.Framework], c.agents[claim.Agent]
	switch {
	case fw == nil || fw.session == nil:
		return nil, fmt.Errorf("the framework is not subscribed")
	case !slices.Contains(fw.info.Roles, claim.Role):
		return nil, fmt.Errorf("the framework is not in role %q", claim.Role)
	case a == nil || a.withheld != "":
		return nil, fmt.Errorf("the agent may not be offered")
	case claim.Resources.IsZero():
		return nil, fmt.Errorf("it holds nothing")
	case !fw.info.Revocable && claim.Resources.HasRevocable():
		return nil, fmt.Errorf("the framework takes no revocable resources")
	case !claim.Resources.UsableBy(claim.Role).Equal(claim.Resources):
		return nil, fmt.Errorf("%v is reserved for others than role %q", claim.Resources, claim.Role)
	case !a.offer(claim.Resources):
		return nil, fmt.Errorf("%v is not free of %v", claim.Resources, a.free())
	}
	c.offered++
	o := &offer{
		id:        c.term.MintOffer(c.offered),
		number:    c.offered,
		framework: fw,
		agent:     a,
		role:      claim.Role,
		resources: claim.Resources,
		made:      c.now,
		expires:   c.now.Add(c.config.OfferTimeout),
	}
	c.openOffer(o)
	c.expiring = append(c.expiring, o)
	if c.config.Debug {
		c.debug("offer made", field("offer", o.id), field("framework", fw.id), field("agent", a.id), field("resources", o.resources.String()))
	}
	return o, nil
}

// openOffer notes an offer of what is booked as offered on its agent.
func (c *Core) openOffer(o *offer) {
	o.open = true
	c.offers[o.id], o.framework.offers[o.id], o.agent.offers[o.id] = o, o, o
	o.framework.book(o.role).offered.add(o.resources)
}

// shownOffer is the offer as the scheduler sees it.
func (c *Core) shownOffer(o *offer) api.Offer {
	var executors []api.ExecutorID
	if len(o.framework.executors) > 0 {
		for _, x := range sortedExecutors(o.agent) {
			if x.framework == o.framework {
				executors = append(executors, x.ref.Executor)
			}
		}
	}
	return api.Offer{
		ID:         o.id,
		Framework:  o.framework.id,
		Agent:      o.agent.id,
		Role:       o.role,
		Resources:  o.resources,
		Hostname:   o.agent.info.Hostname,
		Attributes: o.agent.info.Attributes,
		Region:     o.agent.info.Region,
		Zone:       o.agent.info.Zone,
		Executors:  executors,
		Timeout:    c.config.OfferTimeout,

		Unavailable: o.agent.unavailable(),
	}
}

// closeOffer ends an offer. What it held is still the framework's in the policy's books:
// the caller gives it back or turns it into tasks.
func (c *Core) closeOffer(o *offer) {
	o.open = false
	delete(c.offers, o.id)
	delete(o.framework.offers, o.id)
	delete(o.agent.offers, o.id)
	o.framework.book(o.role).offered.sub(o.resources)
	o.agent.unoffer(o.agent.id, o.resources)
}

// rescind takes an offer back.
func (c *Core) rescind(o *offer, why string) {
	c.closeOffer(o)
	c.giveBack(o.claim())
	c.ended(o, view.Rescinded, why, 0)
	if c.config.Debug {
		c.debug("offer rescinded", field("offer", o.id), field("framework", o.framework.id), field("why", why))
	}
}

// rescindAll takes offers back and tells those who hold them, each once.
func (c *Core) rescindAll(offers map[api.OfferID]*offer, why string) {
	if len(offers) == 0 {
		return
	}
	named := make(map[api.FrameworkID][]api.OfferID)
	for _, o := range sortedOffers(offers) {
		c.rescind(o, why)
		named[o.framework.id] = append(named[o.framework.id], o.id)
	}
	for _, id := range sortedKeys(named) {
		c.tell(c.frameworks[id], protocol.Rescind{Offers: named[id], Why: why})
	}
}

func sortedOffers(offers map[api.OfferID]*offer) []*offer {
	return slices.SortedFunc(maps.Values(offers), func(a, b *offer) int { return cmp.Compare(a.number, b.number) })
}

// decline gives offers back with the filter; those that are gone are no error.
func (c *Core) decline(s *session, call protocol.Decline) {
	for _, id := range call.Offers {
		if o := c.offers[id]; o != nil && o.framework == s.framework {
			c.closeOffer(o)
			c.refused(o.claim(), call.Filter)
			c.ended(o, view.Declined, "", call.Filter.For())
			if c.config.Debug {
				c.debug("offer declined", field("offer", id), field("framework", o.framework.id))
			}
		}
	}
}

// refused gives back what an answer left, and lets the policy remember the filter.
func (c *Core) refused(claim allocator.Claim, filter api.Filter) {
	c.giveBack(claim)
	c.filter(claim, filter)
}

func (c *Core) filter(claim allocator.Claim, filter api.Filter) {
	var until time.Time
	if refuse := filter.For(); refuse > 0 {
		until = c.now.Add(refuse)
	}
	c.policy.Refuse(claim, until)
}

// expireOffers ends those that were held too long, as if declined.
func (c *Core) expireOffers() {
	for len(c.expiring) > 0 && (!c.expiring[0].open || !c.expiring[0].expires.After(c.now)) {
		o := c.expiring[0]
		c.expiring[0] = nil
		c.expiring = c.expiring[1:]
		if !o.open {
			continue
		}
		c.closeOffer(o)
		c.refused(o.claim(), api.Filter{})
		c.ended(o, view.Expired, "", api.DefaultRefuse)
		c.info("offer rescinded", field("offer", o.id), field("framework", o.framework.id), field("why", "expired"))
		c.tell(o.framework, protocol.Rescind{Offers: []api.OfferID{o.id}, Why: "expired"})
	}
}

// nextExpiry is when the oldest open offer ends.
func (c *Core) nextExpiry() time.Time {
	for len(c.expiring) > 0 && !c.expiring[0].open {
		c.expiring[0] = nil
		c.expiring = c.expiring[1:]
	}
	if len(c.expiring) == 0 {
		return time.Time{}
	}
	return c.expiring[0].expires
}
