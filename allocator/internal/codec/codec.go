// Package codec makes messages of what policies are told and of what they propose, and reads them. Allocators in other
// processes use it, and journals.
package codec

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/wire"
)

// Codec makes messages of inputs and proposals, and reads them. Times are counted from Epoch, so that both sides mean
// the same moment without comparing their clocks.
type Codec struct{ Epoch time.Time }

// Nanos returns the nanoseconds from Epoch to t; 0 stands for no time.
func (c Codec) Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(c.Epoch))
}

// Time returns the time that Nanos has counted.
func (c Codec) Time(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return c.Epoch.Add(time.Duration(nanos))
}

// InputToProto makes the message of an input.
func (c Codec) InputToProto(input inputs.Input) *apiv1.AllocatorInput {
	switch i := input.(type) {
	case inputs.SetAgent:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_SetAgent{SetAgent: agentToProto(i.Agent)}}
	case inputs.RemoveAgent:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_RemoveAgent{RemoveAgent: string(i.Agent)}}
	case inputs.SetFramework:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_SetFramework{SetFramework: frameworkToProto(i.Framework)}}
	case inputs.RemoveFramework:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_RemoveFramework{RemoveFramework: string(i.Framework)}}
	case inputs.Suppress:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Suppress{Suppress: rolesToProto(i.Framework, i.Roles)}}
	case inputs.Revive:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Revive{Revive: rolesToProto(i.Framework, i.Roles)}}
	case inputs.SetDemand:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_SetDemand{SetDemand: demandToProto(i)}}
	case inputs.SetRole:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_SetRole{SetRole: roleToProto(i.Role)}}
	case inputs.Hold:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Hold{Hold: i.On}}
	case inputs.Take:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Take{Take: c.ClaimToProto(i.Claim)}}
	case inputs.Launch:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Launch{Launch: c.ClaimToProto(i.Claim)}}
	case inputs.Return:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Return{Return: c.ClaimToProto(i.Claim)}}
	case inputs.Refuse:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Refuse{
			Refuse: &apiv1.AllocatorRefusal{Claim: c.ClaimToProto(i.Claim), Until: c.Nanos(i.Until)},
		}}
	case inputs.Use:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Use{
			Use: &apiv1.AllocatorUse{AgentId: string(i.Agent), Beyond: wire.ResourcesToProto(i.Beyond)},
		}}
	case inputs.Allocate:
		return &apiv1.AllocatorInput{Input: &apiv1.AllocatorInput_Allocate{Allocate: &apiv1.AllocatorRun{At: c.Nanos(i.At)}}}
	}
	panic(fmt.Sprintf("no message for input %T", input))
}

// InputFromProto reads an input. It returns nil and no error for an input of a kind that this version does not know.
func (c Codec) InputFromProto(m *apiv1.AllocatorInput) (inputs.Input, error) {
	switch i := m.GetInput().(type) {
	case *apiv1.AllocatorInput_SetAgent:
		return agentFromProto(i.SetAgent)
	case *apiv1.AllocatorInput_RemoveAgent:
		return inputs.RemoveAgent{Agent: api.AgentID(i.RemoveAgent)}, nil
	case *apiv1.AllocatorInput_SetFramework:
		return frameworkFromProto(i.SetFramework)
	case *apiv1.AllocatorInput_RemoveFramework:
		return inputs.RemoveFramework{Framework: api.FrameworkID(i.RemoveFramework)}, nil
	case *apiv1.AllocatorInput_Suppress:
		return inputs.Suppress{Framework: api.FrameworkID(i.Suppress.GetFrameworkId()), Roles: wire.Names[api.Role](i.Suppress.GetRoles())}, nil
	case *apiv1.AllocatorInput_Revive:
		return inputs.Revive{Framework: api.FrameworkID(i.Revive.GetFrameworkId()), Roles: wire.Names[api.Role](i.Revive.GetRoles())}, nil
	case *apiv1.AllocatorInput_SetDemand:
		return demandFromProto(i.SetDemand)
	case *apiv1.AllocatorInput_SetRole:
		return roleFromProto(i.SetRole)
	case *apiv1.AllocatorInput_Hold:
		return inputs.Hold{On: i.Hold}, nil
	case *apiv1.AllocatorInput_Take:
		claim, err := c.ClaimFromProto(i.Take)
		return inputs.Take{Claim: claim}, err
	case *apiv1.AllocatorInput_Launch:
		claim, err := c.ClaimFromProto(i.Launch)
		return inputs.Launch{Claim: claim}, err
	case *apiv1.AllocatorInput_Return:
		claim, err := c.ClaimFromProto(i.Return)
		return inputs.Return{Claim: claim}, err
	case *apiv1.AllocatorInput_Refuse:
		claim, err := c.ClaimFromProto(i.Refuse.GetClaim())
		return inputs.Refuse{Claim: claim, Until: c.Time(i.Refuse.GetUntil())}, err
	case *apiv1.AllocatorInput_Use:
		beyond, err := wire.ResourcesFromProto(i.Use.GetBeyond())
		return inputs.Use{Agent: api.AgentID(i.Use.GetAgentId()), Beyond: beyond}, err
	case *apiv1.AllocatorInput_Allocate:
		return inputs.Allocate{At: c.Time(i.Allocate.GetAt())}, nil
	}
	return nil, nil
}

// ClaimToProto makes the message of a claim.
func (c Codec) ClaimToProto(claim allocator.Claim) *apiv1.AllocatorClaim {
	return &apiv1.AllocatorClaim{
		FrameworkId: string(claim.Framework), Role: string(claim.Role), AgentId: string(claim.Agent),
		Resources: wire.ResourcesToProto(claim.Resources), TaskId: string(claim.Task), Since: c.Nanos(claim.Since),
		Group: claim.Group, ExecutorId: string(claim.Executor),
	}
}

// ClaimFromProto reads a claim and checks its resources.
func (c Codec) ClaimFromProto(m *apiv1.AllocatorClaim) (allocator.Claim, error) {
	resources, err := wire.ResourcesFromProto(m.GetResources())
	return allocator.Claim{
		Framework: api.FrameworkID(m.GetFrameworkId()), Role: api.Role(m.GetRole()), Agent: api.AgentID(m.GetAgentId()),
		Resources: resources, Task: api.TaskID(m.GetTaskId()), Since: c.Time(m.GetSince()),
		Group: m.GetGroup(), Executor: api.ExecutorID(m.GetExecutorId()),
	}, err
}

func (c Codec) claimsFromProto(ms []*apiv1.AllocatorClaim) ([]allocator.Claim, error) {
	var all []allocator.Claim
	for _, m := range ms {
		claim, err := c.ClaimFromProto(m)
		if err != nil {
			return nil, err
		}
		all = append(all, claim)
	}
	return all, nil
}

// AllocationToProto makes the message of an allocation.
func (c Codec) AllocationToProto(allocation allocator.Allocation) *apiv1.AllocatorAnswers {
	return &apiv1.AllocatorAnswers{
		Offers: wire.Each(allocation.Offers, c.ClaimToProto), Spared: wire.Each(allocation.Spared, c.ClaimToProto),
		Inverse: wire.Each(allocation.Inverse, c.InverseToProto),
	}
}

// InverseToProto makes the message of an inverse.
func (c Codec) InverseToProto(inverse allocator.Inverse) *apiv1.AllocatorInverse {
	return &apiv1.AllocatorInverse{
		Victims: wire.Each(inverse.Victims, c.ClaimToProto), FrameworkId: string(inverse.For), Role: string(inverse.Role), AgentId: string(inverse.Agent),
	}
}

// AllocationFromProto reads the allocation that an answer proposes.
func (c Codec) AllocationFromProto(m *apiv1.AllocatorAnswers) (allocator.Allocation, error) {
	offers, err := c.claimsFromProto(m.GetOffers())
	if err != nil {
		return allocator.Allocation{}, err
	}
	spared, err := c.claimsFromProto(m.GetSpared())
	if err != nil {
		return allocator.Allocation{}, err
	}
	allocation := allocator.Allocation{Offers: offers, Spared: spared}
	for _, one := range m.GetInverse() {
		victims, err := c.claimsFromProto(one.GetVictims())
		if err != nil {
			return allocator.Allocation{}, err
		}
		allocation.Inverse = append(allocation.Inverse, allocator.Inverse{
			Victims: victims, For: api.FrameworkID(one.GetFrameworkId()), Role: api.Role(one.GetRole()), Agent: api.AgentID(one.GetAgentId()),
		})
	}
	return allocation, nil
}

// HelloOf makes the message of what a policy is to be made from.
func HelloOf(config allocator.Config) *apiv1.AllocatorHello {
	hello := &apiv1.AllocatorHello{Version: version.String(), Seed: config.Seed, OfferAgain: int64(config.OfferAgain)}
	for _, least := range config.MinOffer {
		hello.MinOffer = append(hello.MinOffer, wire.ResourceToProto(api.Resource{
			Label: api.Label{Name: least.Name}, Scalar: api.Milli(least.Milli),
		}))
	}
	return hello
}

// ConfigOf reads what a policy is to be made from.
func ConfigOf(hello *apiv1.AllocatorHello) allocator.Config {
	config := allocator.Config{Seed: hello.GetSeed(), OfferAgain: time.Duration(hello.GetOfferAgain())}
	for _, least := range hello.GetMinOffer() {
		config.MinOffer = append(config.MinOffer, allocator.MinOffer{Name: least.GetName(), Milli: least.GetMilli()})
	}
	return config
}
