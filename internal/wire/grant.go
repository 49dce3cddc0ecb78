package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// GrantFromProto returns a grant that is not checked yet.
func GrantFromProto(m *apiv1.PrincipalGrant) rights.Grant {
	return rights.Grant{
		Verb: rights.Verb(m.GetVerb()), Role: api.Role(m.GetRole()), Framework: m.GetFramework(), Agent: m.GetAgent(), User: m.GetUser(),
	}
}

// GrantToProto returns the message of a grant.
func GrantToProto(g rights.Grant) *apiv1.PrincipalGrant {
	return &apiv1.PrincipalGrant{Verb: string(g.Verb), Role: string(g.Role), Framework: g.Framework, Agent: g.Agent, User: g.User}
}
