package main

import (
	"strings"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/books"
	"github.com/tenderhq/tender/api"
)

// first serves top-level roles in the order in which they first appeared: who came first has all
// it wants before the next is offered anything. Everything else (quota, reservations,
// filters, demand, explanations) is the bookkeeping that the built-in policies share.
type first struct {
	allocator.Allocator
	came map[api.Role]int
	said map[api.Role]allocator.Role // by operators
}

func newFirst(config allocator.Config) (allocator.Allocator, error) {
	return &first{books.New(config, books.Options{Ranked: true}), make(map[api.Role]int), make(map[api.Role]allocator.Role)}, nil
}

// SetFramework notes roles that are new.
func (f *first) SetFramework(framework allocator.Framework) {
	for _, name := range framework.Roles {
		top, _, _ := strings.Cut(string(name), "/") // those below rank as it does
		role := api.Role(top)
		if _, known := f.came[role]; !known {
			f.came[role] = len(f.came)
			f.rank(role)
		}
	}
	f.Allocator.SetFramework(framework)
}

// SetRole keeps what an operator says, but for the priority.
func (f *first) SetRole(role allocator.Role) {
	f.said[role.Role] = role
	f.rank(role.Role)
}

func (f *first) rank(name api.Role) {
	role := f.said[name]
	role.Role, role.Priority = name, -f.came[name]
	f.Allocator.SetRole(role)
}
