package master_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/wire"
)

// TestNobodyGivesMoreByATokenThanHeHas: somebody who was granted only to make tokens, or to rotate the authority,
// becomes neither an admin nor a master by that, nor anybody with more grants.
func TestNobodyGivesMoreByATokenThanHeHas(t *testing.T) {
	inLobby(t, 1, trust.Lives{}, func(t *testing.T, l *lobby) {
		l.restrict("ann", &apiv1.PrincipalGrant{Verb: "create-token"}, &apiv1.PrincipalGrant{Verb: "rotate-authority"}, &apiv1.PrincipalGrant{Verb: "admin", Role: "eng"})
		l.restrict("etl", &apiv1.PrincipalGrant{Verb: "run", Role: "eng/etl"})
		l.restrict("ops", &apiv1.PrincipalGrant{Verb: "run", Role: "ops"})
		l.restrict("bob", &apiv1.PrincipalGrant{Verb: "view"})
		conn := l.member("ann", l.leader().GRPCAddr())
		defer conn.Close()
		ann := apiv1.NewOperatorServiceClient(conn)
		for _, test := range []struct {
			what    string
			request *apiv1.CreateTokenRequest
			may     bool
		}{
			{"an agent", &apiv1.CreateTokenRequest{Kind: "agent"}, true},
			{"a master, which has the key", &apiv1.CreateTokenRequest{Kind: "master"}, false},
			{"the first operator", &apiv1.CreateTokenRequest{Kind: "operator", Principal: "admin"}, false},
			{"an operator who may do everything", &apiv1.CreateTokenRequest{Kind: "operator", Principal: "eve"}, false},
			{"an operator who views all", &apiv1.CreateTokenRequest{Kind: "operator", Principal: "bob"}, false},
			{"an operator who runs in a role of hers", &apiv1.CreateTokenRequest{Kind: "operator", Principal: "etl"}, true},
			{"a framework in a role of hers", &apiv1.CreateTokenRequest{Kind: "framework", Principal: "new", Roles: []string{"eng/new"}}, true},
			{"a framework in another role", &apiv1.CreateTokenRequest{Kind: "framework", Principal: "new", Roles: []string{"ops"}}, false},
			{"a framework that runs in another role", &apiv1.CreateTokenRequest{Kind: "framework", Principal: "ops", Roles: []string{"eng"}}, false},
			{"a framework to whom others will grant something", &apiv1.CreateTokenRequest{Kind: "framework", Principal: "later"}, false},
		} {
			_, err := ann.CreateToken(t.Context(), test.request)
			if test.may != (err == nil) || err != nil && wire.Error(err).Kind != api.Denied {
				t.Errorf("a token of %s: %v", test.what, err)
			}
			if _, err := l.operator.CreateToken(t.Context(), test.request); err != nil {
				t.Errorf("the first operator makes a token of %s: %v", test.what, err)
			}
		}
		own := &apiv1.RotateAuthorityRequest{Certificate: []byte("one of her own"), PrivateKey: []byte("whose key she has")}
		if _, err := ann.RotateAuthority(t.Context(), own); wire.Error(err).Kind != api.Denied {
			t.Errorf("an authority whose key she has: %v", err)
		}
		if _, err := ann.RotateAuthority(t.Context(), &apiv1.RotateAuthorityRequest{}); err != nil {
			t.Errorf("an authority that the leader makes: %v", err)
		}
	})
}
