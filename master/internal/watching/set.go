package watching

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
)

// setBytesMax bounds what an event says in fields. What is larger is left out, because a history refuses large events.
const setBytesMax = 16 << 10

// setOf returns what a record has set as the encoded field of an event. (Protocol rule R71.)
func setOf(r *change.Record) []byte {
	if r.Set == nil {
		return nil // as most: an event of a life allocates nothing for it
	}
	event := &apiv1.Event{}
	switch set := r.Set.(type) {
	default:
		return nil
	case registry.Role:
		event.Set = &apiv1.Event_Role{Role: &apiv1.RoleView{
			Role: string(r.Role), Weight: cmp.Or(set.Weight, 1), Priority: int32(set.Priority),
			Guarantee: wire.ResourcesStruct(set.Guarantee), Limit: wire.ResourcesStruct(set.Limit),
		}}
	case rights.Grant:
		event.Set = &apiv1.Event_Grant{Grant: wire.GrantToProto(set)}
	case api.Agent:
		event.Set = &apiv1.Event_Agent{Agent: &apiv1.AgentView{
			Id: string(set.ID), Hostname: set.Hostname, Region: set.Region, Zone: set.Zone, Attributes: set.Attributes, Total: wire.ResourcesStruct(set.Resources),
		}}
	case api.Framework:
		event.Set = &apiv1.Event_Framework{Framework: &apiv1.FrameworkView{
			Id: string(set.ID), Name: set.Name, Principal: set.Principal, Roles: wire.Texts(set.Roles),
		}}
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(event)
	if err != nil || len(encoded) > setBytesMax { // an error: what a peer has said of itself is no text
		return nil
	}
	return encoded
}
