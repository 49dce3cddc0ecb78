package inputs

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Tap is an allocator that hands every input on, to somebody who listens and to the
// policy behind it.
type Tap struct {
	Policy allocator.Allocator
	// Told is called before the policy is.
	Told func(Input)
	// Proposed is called with the answer to each Allocate. May be nil.
	Proposed func(allocator.Allocation)
}

func (t *Tap) tell(input Input) {
	t.Told(input)
	input.Apply(t.Policy)
}

// SetAgent and all that follow are the policy's.
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

// Suppress is the policy's.
func (t *Tap) Suppress(id api.FrameworkID, roles []api.Role) { t.tell(Suppress{id, roles}) }

// Revive is the policy's.
func (t *Tap) Revive(id api.FrameworkID, roles []api.Role) { t.tell(Revive{id, roles}) }

// SetDemand is the policy's.
func (t *Tap) SetDemand(id api.FrameworkID, role api.Role, shapes []api.Shape) {
	t.tell(SetDemand{id, role, shapes})
}

// Allocate is the policy's.
func (t *Tap) Allocate(now time.Time) allocator.Allocation {
	t.Told(Allocate{now})
	allocation := t.Policy.Allocate(now)
	if t.Proposed != nil {
		t.Proposed(allocation)
	}
	return allocation
}

// Wake is the policy's.
func (t *Tap) Wake() time.Time { return t.Policy.Wake() }

// Explain is the policy's.
func (t *Tap) Explain(id api.FrameworkID, agent api.AgentID, now time.Time) allocator.Explanation {
	return t.Policy.Explain(id, agent, now)
}

// Filters are the policy's, if it counts them.
func (t *Tap) Filters(principal string) int {
	if policy, counts := t.Policy.(allocator.FilterCounter); counts {
		return policy.Filters(principal)
	}
	return 0
}

// Shares is the policy's.
func (t *Tap) Shares() allocator.Shares { return t.Policy.Shares() }
