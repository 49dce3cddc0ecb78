// Package inputs holds what an allocator is told as values: each call of allocator.Allocator is one Input that can be
// sent, stored and applied again. A Mirror knows what a late receiver has to be told.
//
// It is pure: the same inputs make the same mirror, and applied to the same policy the same offers.
package inputs

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Input is one of the types below. Each stands for a call of the allocator's method of the same name.
type Input interface {
	// Apply makes the call. The result of Allocate is dropped; a caller that needs it calls Allocate itself.
	Apply(allocator.Allocator)
}

// The inputs.
type (
	SetAgent        struct{ Agent allocator.Agent }
	RemoveAgent     struct{ Agent api.AgentID }
	SetFramework    struct{ Framework allocator.Framework }
	RemoveFramework struct{ Framework api.FrameworkID }
	Suppress        struct {
		Framework api.FrameworkID
		Roles     []api.Role
	}
	Revive struct {
		Framework api.FrameworkID
		Roles     []api.Role
	}
	SetDemand struct {
		Framework api.FrameworkID
		Role      api.Role
		Shapes    []api.Shape // nil: no demand is stated
	}
	SetRole struct{ Role allocator.Role }
	Hold    struct{ On bool }
	Take    struct{ Claim allocator.Claim }
	Launch  struct{ Claim allocator.Claim }
	Return  struct{ Claim allocator.Claim }
	Refuse  struct {
		Claim allocator.Claim
		Until time.Time
	}
	Use struct {
		Agent  api.AgentID
		Beyond api.Resources
	}
	Allocate struct{ At time.Time }
)

func (i SetAgent) Apply(to allocator.Allocator)        { to.SetAgent(i.Agent) }
func (i RemoveAgent) Apply(to allocator.Allocator)     { to.RemoveAgent(i.Agent) }
func (i SetFramework) Apply(to allocator.Allocator)    { to.SetFramework(i.Framework) }
func (i RemoveFramework) Apply(to allocator.Allocator) { to.RemoveFramework(i.Framework) }
func (i Suppress) Apply(to allocator.Allocator)        { to.Suppress(i.Framework, i.Roles) }
func (i Revive) Apply(to allocator.Allocator)          { to.Revive(i.Framework, i.Roles) }
func (i SetDemand) Apply(to allocator.Allocator)       { to.SetDemand(i.Framework, i.Role, i.Shapes) }
func (i SetRole) Apply(to allocator.Allocator)         { to.SetRole(i.Role) }
func (i Hold) Apply(to allocator.Allocator)            { to.Hold(i.On) }
func (i Take) Apply(to allocator.Allocator)            { to.Take(i.Claim) }
func (i Launch) Apply(to allocator.Allocator)          { to.Launch(i.Claim) }
func (i Return) Apply(to allocator.Allocator)          { to.Return(i.Claim) }
func (i Refuse) Apply(to allocator.Allocator)          { to.Refuse(i.Claim, i.Until) }
func (i Use) Apply(to allocator.Allocator)             { to.Use(i.Agent, i.Beyond) }
func (i Allocate) Apply(to allocator.Allocator)        { to.Allocate(i.At) }
