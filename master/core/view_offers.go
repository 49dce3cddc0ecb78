package core

import "strings"

// Offers returns a page of the open offers.
func (c *Core) Offers(query Query) Page[OfferView] {
	var rows []*offer
	for id, o := range c.offers { // order: irrelevant because paged sorts
		if (query.Agent == "" || query.Agent == o.agent.id) && (query.Framework == "" || query.Framework == o.framework.id) &&
			(query.Role == "" || query.Role == o.role) && strings.HasPrefix(string(id), query.Prefix) {
			rows = append(rows, o)
		}
	}
	return paged(query, rows, func(o *offer) string { return string(o.id) }, func(o *offer) OfferView {
		return OfferView{Offer: c.shownOffer(o), FrameworkName: o.framework.info.Name, Since: o.made, Expires: o.expires}
	})
}
