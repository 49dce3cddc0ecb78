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

// SecretList notes the secrets, as they are, of roles that the caller may view. With a role in the query they are those of
// the role and of the roles below it.
func SecretList(c Cluster, _ Query) Listing[Secret] {
	list := &listing[Secret, Secret]{name: func(secret Secret) string { return string(secret.ID) }}
	list.reader = func(c Cluster, query *Query) func(Secret) (Secret, bool) {
		return func(secret Secret) (Secret, bool) {
			role := secret.ID.Role()
			return secret, role.Within(query.Role) && strings.HasPrefix(string(secret.ID), query.Prefix) && c.Sees.Covers(rights.Object{Role: role})
		}
	}
	for id, secret := range c.Registry.Secrets { // order: irrelevant because rows are sorted
		list.note(Secret{ID: id, By: secret.By, Set: secret.Set})
	}
	return list
}
