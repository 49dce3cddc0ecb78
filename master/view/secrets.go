package view

import (
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// Secret is a secret as people see it: without its value.
type Secret struct {
	ID  api.SecretID
	By  string
	Set time.Time
}

// Secrets returns a page of the secrets of roles that the caller may view. With a role in the query they are those of
// the role and of the roles below it.
func (c Cluster) Secrets(query Query) Page[Secret] {
	list := newRows[Secret](query)
	for id, secret := range c.Registry.Secrets { // order: irrelevant because rows are sorted
		role := id.Role()
		if role.Within(query.Role) && strings.HasPrefix(string(id), query.Prefix) && c.Sees.Covers(rights.Object{Role: role}) {
			list.add(string(id), Secret{ID: id, By: secret.By, Set: secret.Set})
		}
	}
	return pageOf(list, func(secret Secret) Secret { return secret })
}
