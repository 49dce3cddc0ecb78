package taskset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/locality"
)

// role is everything that waits for offers in one role.
type role struct {
	name  api.Role // "": Config.Role if it is set, otherwise the framework's only role
	delay *locality.Delay
}

// roleOf returns where the items wait that name this role.
func (q *waiting) roleOf(name api.Role) *role {
	if name == q.config.Role {
		name = ""
	}
	r := q.roles[name]
	if r == nil {
		config := q.config.Locality
		config.Allow, config.Put = q.mayPlace, q.launchPlaced
		r = &role{name: name, delay: locality.New(config)}
		q.roles[name] = r
	}
	return r
}

// nameOf returns the name that the masters have for the role.
func (q *waiting) nameOf(r *role) api.Role {
	if r.name == "" {
		return q.own
	}
	return r.name
}

// rolesNamed returns what waits for offers in this role.
func (q *waiting) rolesNamed(name api.Role) (roles []*role) {
	for _, key := range slices.Sorted(maps.Keys(q.roles)) {
		if r := q.roles[key]; q.nameOf(r) == name {
			roles = append(roles, r)
		}
	}
	return roles
}

var errWhichRole = errors.New("the framework has several roles; say which one by Config.Role or Item.Role")

// checkRole checks that the item is wanted in the same role as the other items of its group.
func (q *waiting) checkRole(item Item) error {
	if item.Role != "" {
		if err := item.Role.Check(); err != nil {
			return err
		}
	}
	if g := q.groups[item.Group]; g != nil && g.role != q.roleOf(item.Role) {
		return fmt.Errorf("the group %q has the role %q, the item names %q; a group has one role", item.Group, q.nameOf(g.role), item.Role)
	}
	if q.named && q.own == "" && item.Role == "" {
		return errWhichRole
	}
	return nil
}

// beginRoles finds out, with the first session, in which role the items are wanted that name none.
func (s *Set) beginRoles(ctx context.Context, client *framework.Client) error {
	s.mu.Lock()
	s.state.waiting.own = s.config.Role
	if roles := client.Roles(); s.state.waiting.own == "" && len(roles) == 1 {
		s.state.waiting.own = roles[0]
	}
	s.framework, s.state.waiting.named = client, true
	var named []api.Role
	nameless := false
	for _, it := range s.state.items { // order: irrelevant because they are sorted
		named = append(named, it.Role)
		nameless = nameless || it.Role == ""
	}
	own := s.state.waiting.own
	s.mu.Unlock()
	if nameless && own == "" {
		return api.E("taskset.roles", api.Invalid, client.FrameworkID(), errWhichRole)
	}
	slices.Sort(named)
	return s.joinRoles(ctx, append(slices.Compact(named), own)...)
}

// joinRoles subscribes the framework to those of the roles that are new to it.
func (s *Set) joinRoles(ctx context.Context, names ...api.Role) error {
	s.mu.Lock()
	client := s.framework
	s.mu.Unlock()
	if client == nil {
		return nil // the first session subscribes to them
	}
	join := func(roles []api.Role) []api.Role {
		for _, name := range names {
			if name != "" && !slices.Contains(roles, name) {
				roles = append(roles, name)
			}
		}
		return roles
	}
	if before := client.Roles(); len(join(before)) == len(before) {
		return nil
	}
	return client.UpdateFramework(ctx, func(f *api.Framework) { f.Roles = join(f.Roles) })
}
