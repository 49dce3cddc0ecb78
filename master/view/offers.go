package view

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Offer is an open offer as people see it.
type Offer struct {
	Offer         api.Offer
	FrameworkName string
	Since         time.Time
	Expires       time.Time
}

// OfferBrief has the fields by which offers are selected.
type OfferBrief struct {
	ID        api.OfferID
	Agent     api.AgentID
	Framework api.FrameworkID
	Role      api.Role
}

// OfferList notes the open offers. Only the leader knows any.
func OfferList(c Cluster, _ Query) Listing[Offer] {
	list := &listing[OfferBrief, Offer]{name: func(o OfferBrief) string { return string(o.ID) }}
	list.reader = func(c Cluster, query *Query) func(OfferBrief) (Offer, bool) {
		return func(o OfferBrief) (Offer, bool) {
			if !c.Leader.IsOpen(o.ID) || !c.selects(query, string(o.ID), o.Agent, o.Framework, o.Role) {
				return Offer{}, false
			}
			return c.Leader.Offer(o.ID), true
		}
	}
	if c.Leader != nil {
		for o := range c.Leader.Offers() {
			list.note(o)
		}
	}
	return list
}
