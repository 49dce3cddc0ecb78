package core

import (
	"strings"

	"github.com/tenderhq/tender/api"
)

// Roles returns a page of the roles that anybody has set, subscribed to or uses, and of
// those above them. What is used below a role counts in it.
func (c *Core) Roles(query Query) Page[RoleView] {
	views := c.roleViews()
	shares := c.policy.Shares()
	var rows []*RoleView
	for role, view := range views { // order: irrelevant because paged sorts
		if (query.Role == "" || query.Role == role) && strings.HasPrefix(string(role), query.Prefix) {
			view.DominantShare = shares.Roles[role]
			rows = append(rows, view)
		}
	}
	return paged(query, rows, func(v *RoleView) string { return string(v.Role) }, func(v *RoleView) RoleView { return *v })
}

func (c *Core) roleViews() map[api.Role]*RoleView {
	views := make(map[api.Role]*RoleView)
	at := func(role api.Role) *RoleView {
		view := views[role]
		if view == nil {
			set := c.registry.Roles[role]
			view = &RoleView{Role: role, Weight: set.Weight, Priority: set.Priority, Guarantee: set.Guarantee, Limit: set.Limit}
			if view.Weight == 0 {
				view.Weight = 1
			}
			views[role] = view
		}
		return view
	}
	for role := range c.registry.Roles { // order: irrelevant because it fills a map
		upwards(role, func(r api.Role) { at(r) })
	}
	for _, fw := range c.frameworks { // order: irrelevant because it sums
		for _, role := range fw.info.Roles {
			upwards(role, func(r api.Role) { at(r).Frameworks++ })
		}
		for role, b := range fw.books { // order: irrelevant because it sums
			used, offered := b.used.resources(), b.offered.resources()
			upwards(role, func(r api.Role) {
				at(r).Allocated = at(r).Allocated.Plus(used)
				at(r).Offered = at(r).Offered.Plus(offered)
			})
		}
	}
	for _, a := range c.agents { // order: irrelevant because it sums
		for _, item := range a.total.Items() {
			if item.Reserved != "" && item.Scalar > 0 {
				plain := api.NewResources(item).Plain()
				upwards(item.Reserved, func(r api.Role) { at(r).Reserved = at(r).Reserved.Plus(plain) })
			}
		}
	}
	return views
}

// upwards visits the role and all above it.
func upwards(role api.Role, visit func(api.Role)) {
	for ; role != ""; role = role.Parent() {
		visit(role)
	}
}
