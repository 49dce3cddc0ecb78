package inputs

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Tap is an allocator that passes every call to a policy, and tells a listener of it first.
type Tap struct {
	Policy allocator.Allocator
	// Told is called with each input before the policy is.
	Told func(Input)
	// Proposed is called with the result of each Allocate. It may be nil.
	Proposed func(allocator.Allocation)
}

func (t *Tap) tell(input Input) {
	t.Told(input)
	input.Apply(t.Policy)
}

// SetAgent and the methods below pass the call on to the policy.
func (t *Tap) SetAgent(a allocator.Agent)             { t.tell(SetAgent{a}) }
func (t *Tap) RemoveAgent(id api.AgentID)             { t.tell(RemoveAgent{id}) }
func (t *Tap) SetFramework(f allocator.Framework)     { t.tell(SetFramework{f}) }
func (t *Tap) RemoveFramework(id api.FrameworkID)     { t.tell(RemoveFramework{id}) }
func (t *Tap) SetRole(r allocator.Role)               { t.tell(SetRole{r}) }
func (t *Tap) Hold(on bool)                           { t.tell(Hold{on}) }
func (t *Tap) Take(c allocator.Claim)                 { t.tell(Take{c}) }
func (t *Tap) Launch(c allocator.Claim)               { t.tell(Launch{c}) }
func (t *Tap) Return(c allocator.Claim)               { t.tell(Return{c}) }
func (t *Tap) Refuse(c allocator.Claim, u time.Time)  { t.tell(Refuse{c, u}) }
func (t *Tap) Use(id api.AgentID, more api.Resources) { t.tell(Use{id, more}) }

// Suppress passes the call on to the policy.
func (t *Tap) Suppress(id api.FrameworkID, roles []api.Role) { t.tell(Suppress{id, roles}) }

// Revive passes the call on to the policy.
func (t *Tap) Revive(id api.FrameworkID, roles []api.Role) { t.tell(Revive{id, roles}) }

// SetDemand passes the call on to the policy.
func (t *Tap) SetDemand(id api.FrameworkID, role api.Role, shapes []api.Shape) {
	t.tell(SetDemand{id, role, shapes})
}

// Allocate passes the call on to the policy, and its result to Proposed.
func (t *Tap) Allocate(now time.Time) allocator.Allocation {
	t.Told(Allocate{now})
	allocation := t.Policy.Allocate(now)
	if t.Proposed != nil {
		t.Proposed(allocation)
	}
	return allocation
}

// Wake passes the call on to the policy.
func (t *Tap) Wake() time.Time { return t.Policy.Wake() }

// Explain passes the call on to the policy.
func (t *Tap) Explain(id api.FrameworkID, agent api.AgentID, now time.Time) allocator.Explanation {
	return t.Policy.Explain(id, agent, now)
}

// Filters passes the call on to the policy, if the policy counts filters.
func (t *Tap) Filters(principal string) int {
	if policy, counts := t.Policy.(allocator.FilterCounter); counts {
		return policy.Filters(principal)
	}
	return 0
}

// Shares passes the call on to the policy.
func (t *Tap) Shares() allocator.Shares { return t.Policy.Shares() }
