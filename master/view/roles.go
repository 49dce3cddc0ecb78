package view

import (
	"iter"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Role is a role as people see it.
type Role struct {
	Role          api.Role
	Weight        float64
	Priority      int
	Guarantee     api.Resources
	Limit         api.Resources
	Allocated     api.Resources
	Offered       api.Resources
	Reserved      api.Resources
	DominantShare float64
	Frameworks    int
}

// RoleList notes the roles that anybody has set, subscribed to or uses, and those above them. What is used in a role also
// counts in those above it. What roles have is summed for each page; the first has the sums by which the rows were noted.
func RoleList(c Cluster, _ Query) Listing[Role] {
	list := &listing[api.Role, Role]{name: func(role api.Role) string { return string(role) }}
	noted := c.roles()
	first := noted // the leader's loop only: elsewhere several may read at once
	list.reader = func(c Cluster, query *Query) func(api.Role) (Role, bool) {
		var shares map[api.Role]float64
		if c.Leader != nil {
			shares = c.Leader.Shares().Roles
		}
		var sums roleSums
		if c.Leader != nil {
			sums, first = first, nil
		}
		if sums == nil {
			sums = c.roles()
		}
		return func(role api.Role) (Role, bool) {
			r, is := sums[role]
			if !is || query.Role != "" && query.Role != role || !strings.HasPrefix(string(role), query.Prefix) {
				return Role{}, false
			}
			r.DominantShare = shares[role]
			return *r, true
		}
	}
	for role := range noted { // order: irrelevant because rows are sorted
		list.note(role)
	}
	return list
}

// roleSums holds roles with their sums so far.
type roleSums map[api.Role]*Role

// roles returns all roles that anybody has set, subscribed to or uses, and those above them.
func (c Cluster) roles() roleSums {
	all := make(roleSums)
	for role := range c.Registry.Roles { // order: irrelevant because it fills a map
		c.upwards(all, role, func(*Role) {})
	}
	for f := range c.frameworks() {
		for _, role := range f.Roles {
			c.upwards(all, role, func(r *Role) { r.Frameworks++ })
		}
	}
	if c.Leader != nil {
		for held := range c.Leader.Holdings() {
			c.upwards(all, held.Role, func(r *Role) {
				r.Allocated, r.Offered = r.Allocated.Plus(held.Used), r.Offered.Plus(held.Offered)
			})
		}
	}
	for item := range c.reserved() {
		plain := api.NewResources(item).Plain()
		c.upwards(all, item.Reserved, func(r *Role) { r.Reserved = r.Reserved.Plus(plain) })
	}
	return all
}

// reserved returns the scalars that are reserved on agents.
func (c Cluster) reserved() iter.Seq[api.Resource] {
	if c.Leader != nil {
		return c.Leader.Reserved()
	}
	return func(yield func(api.Resource) bool) {
		for _, known := range c.Registry.Agents { // order: irrelevant because whoever asks sums
			for _, item := range known.Total().Items() {
				if item.Reserved != "" && item.Scalar > 0 && !yield(item) {
					return
				}
			}
		}
	}
}

// upwards calls visit for the role and for all roles above it.
func (c Cluster) upwards(all roleSums, role api.Role, visit func(*Role)) {
	for ; role != ""; role = role.Parent() {
		r := all[role]
		if r == nil {
			set := c.Registry.Roles[role]
			r = &Role{Role: role, Weight: set.Weight, Priority: set.Priority, Guarantee: set.Guarantee, Limit: set.Limit}
			if r.Weight == 0 {
				r.Weight = 1
			}
			all[role] = r
		}
		visit(r)
	}
}
