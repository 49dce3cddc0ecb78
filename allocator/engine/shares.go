package engine

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Shares reports the share of each framework and role that holds anything.
func (e *books) Shares() allocator.Shares {
	shares := allocator.Shares{Frameworks: map[api.FrameworkID]float64{}, Roles: map[api.Role]float64{}}
	// order: irrelevant because it goes into a map
	for id, f := range e.frameworks {
		if share := e.share(f.taken); share > 0 {
			shares.Frameworks[id] = share
		}
	}
	// order: irrelevant because it goes into a map
	for name, r := range e.roles {
		if share := e.share(r.taken); share > 0 {
			shares.Roles[name] = share
		}
	}
	return shares
}
