package inputs

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Calls has the methods by which an allocator is told something, and is called with each call as an input. It has none of
// those that return something.
type Calls func(Input)

// SetAgent and the methods below make the input of the same name.
func (to Calls) SetAgent(a allocator.Agent)               { to(SetAgent{a}) }
func (to Calls) RemoveAgent(id api.AgentID)               { to(RemoveAgent{id}) }
func (to Calls) SetFramework(f allocator.Framework)       { to(SetFramework{f}) }
func (to Calls) RemoveFramework(id api.FrameworkID)       { to(RemoveFramework{id}) }
func (to Calls) SetRole(r allocator.Role)                 { to(SetRole{r}) }
func (to Calls) Hold(on bool)                             { to(Hold{on}) }
func (to Calls) Take(c allocator.Claim)                   { to(Take{c}) }
func (to Calls) Launch(c allocator.Claim)                 { to(Launch{c}) }
func (to Calls) Return(c allocator.Claim)                 { to(Return{c}) }
func (to Calls) Refuse(c allocator.Claim, u time.Time)    { to(Refuse{c, u}) }
func (to Calls) Use(id api.AgentID, beyond api.Resources) { to(Use{id, beyond}) }

// Suppress makes the input of the same name.
func (to Calls) Suppress(id api.FrameworkID, roles []api.Role) { to(Suppress{id, roles}) }

// Revive makes the input of the same name.
func (to Calls) Revive(id api.FrameworkID, roles []api.Role) { to(Revive{id, roles}) }

// SetDemand makes the input of the same name.
func (to Calls) SetDemand(id api.FrameworkID, role api.Role, shapes []api.Shape) {
	to(SetDemand{id, role, shapes})
}

// Answers has the methods of an allocator that return something. Embedded beside Calls it makes an allocator: what both
// have is taken from Calls, which stands one level higher.
type Answers struct{ allocator.Allocator }

// Tap is an allocator that passes every call to a policy, and tells a listener of it first.
type Tap struct {
	Calls
	Answers

	told     func(Input)
	proposed func(allocator.Allocation)
}

// NewTap puts a tap before the policy. The listener told is called with each input before the policy is; proposed is
// called with the result of each Allocate, and may be nil.
func NewTap(policy allocator.Allocator, told func(Input), proposed func(allocator.Allocation)) *Tap {
	pass := func(input Input) {
		told(input)
		input.Apply(policy)
	}
	return &Tap{Calls: pass, Answers: Answers{policy}, told: told, proposed: proposed}
}

// Allocate passes the call on to the policy, and its result to the listener.
func (t *Tap) Allocate(now time.Time) allocator.Allocation {
	t.told(Allocate{now})
	allocation := t.Allocator.Allocate(now)
	if t.proposed != nil {
		t.proposed(allocation)
	}
	return allocation
}

// Filters passes the call on to the policy, if the policy counts filters.
func (t *Tap) Filters(principal string) int {
	if policy, counts := t.Allocator.(allocator.FilterCounter); counts {
		return policy.Filters(principal)
	}
	return 0
}
