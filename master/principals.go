package master

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

// principalService answers what people ask about principals: who they are, what they may do, and changes of that.
type principalService struct {
	raft    *raftlog.Log
	leading *leadership
}

func (principalService) WhoAmI(ctx context.Context, _ *apiv1.WhoAmIRequest) (*apiv1.WhoAmIResponse, error) {
	caller := guard.CallerOf(ctx)
	return &apiv1.WhoAmIResponse{Kind: string(caller.Kind), Name: caller.Name, Grants: wire.Each(caller.Grants, wire.GrantToProto)}, nil
}

func (principalService) CanI(ctx context.Context, r *apiv1.CanIRequest) (*apiv1.CanIResponse, error) {
	err := rights.Can(guard.CallerOf(ctx), wire.GrantFromProto(r.GetWish()))
	switch {
	case err == nil:
		return &apiv1.CanIResponse{Allowed: true}, nil
	case err.Kind != api.Denied:
		return nil, err
	}
	return &apiv1.CanIResponse{Why: err.Err.Error()}, nil
}

func (s principalService) ListPrincipals(_ context.Context, r *apiv1.ListRequest) (*apiv1.ListPrincipalsResponse, error) {
	if s.leading.now.Load() == nil && !r.GetStale() {
		return nil, s.leading.notLeader("operator.principals")
	}
	index, all := s.leading.index(), s.raft.Principals()
	limit := int(r.GetLimit())
	if limit <= 0 || limit > api.PageItemsMax {
		limit = api.PageItemsMax
	}
	answer := &apiv1.ListPrincipalsResponse{AppliedIndex: index}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if name <= r.GetPageToken() && r.GetPageToken() != "" || !strings.HasPrefix(name, r.GetPrefix()) || !p.Revoked.IsZero() && !r.GetAll() {
			continue
		}
		if n := len(answer.Items); n == limit {
			answer.NextPageToken = answer.Items[n-1].GetName()
			break
		}
		answer.Items = append(answer.Items, showPrincipal(name, p))
	}
	return answer, nil
}

func showPrincipal(name string, p registry.Principal) *apiv1.PrincipalView {
	return &apiv1.PrincipalView{
		Name: name, Grants: wire.Each(p.Grants, wire.GrantToProto), Created: wire.TimeToProto(p.Created), Revoked: wire.TimeToProto(p.Revoked), Why: p.Why,
	}
}

func (s principalService) Grant(ctx context.Context, r *apiv1.GrantRequest) (*apiv1.ActionResponse, error) {
	const op = "principal.grant"
	grant := wire.GrantFromProto(r.GetGrant())
	if err := grant.Check(); err != nil {
		return nil, api.E(op, api.Invalid, r.GetPrincipal(), err)
	}
	answer, err := s.leading.act(ctx, op, core.Set{Setting: settings.Grant{Principal: r.GetPrincipal(), Grant: grant}})
	return actionResponse(r.GetPrincipal(), answer, err)
}

func (s principalService) Revoke(ctx context.Context, r *apiv1.RevokeRequest) (*apiv1.ActionResponse, error) {
	const op = "principal.revoke"
	if r.GetPrincipal() == "" {
		return nil, api.E(op, api.Invalid, "", errors.New("no principal is named"))
	}
	if err := api.CheckText("the reason", r.GetWhy()); err != nil {
		return nil, api.E(op, api.Invalid, r.GetPrincipal(), err)
	}
	var setting settings.Setting = settings.Revoke{Principal: r.GetPrincipal(), Why: r.GetWhy()}
	if r.GetGrant() != nil {
		setting = settings.Take{Principal: r.GetPrincipal(), Grant: wire.GrantFromProto(r.GetGrant())}
	}
	answer, err := s.leading.act(ctx, op, core.Set{Setting: setting})
	return actionResponse(r.GetPrincipal(), answer, err)
}
