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

// Offers returns a page of the open offers. Only the leader knows any.
func (c Cluster) Offers(query Query) Page[Offer] {
	if c.Leader == nil {
		return Page[Offer]{}
	}
	list := newRows[api.OfferID](query)
	for o := range c.Leader.Offers() {
		if c.selects(query, string(o.ID), o.Agent, o.Framework, o.Role) {
			list.add(string(o.ID), o.ID)
		}
	}
	return pageOf(list, c.Leader.Offer)
}
